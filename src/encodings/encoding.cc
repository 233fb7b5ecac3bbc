// Defaults of the encoding seams (ropewalk/encoding.h).
#include "ropewalk/encoding.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "encodings/dot.h"
#include "simd/ops.h"

namespace ropewalk {
namespace {

bool consecutive(std::span<const int64_t> positions) {
  return std::adjacent_find(positions.begin(), positions.end(), [](int64_t a, int64_t b) { return b != a + 1; }) ==
         positions.end();
}

// A row of a tile whose keys are consecutive, as nearly all are, takes one call of row(query, first key, out); any other row
// one for each key.
template <class T, class Row>
void add_rows(const ScoreTile& tile, T* scores, int64_t stride, const Row& row_of) {
  const size_t cols = tile.k_pos.size();
  const bool at_once = consecutive(tile.k_pos);
  std::vector<double> biases(cols);
  for (size_t r = 0; r < tile.q_pos.size(); ++r) {
    T* row = scores + static_cast<int64_t>(r) * stride;
    for (size_t c = 0; c < cols; c += at_once ? cols : 1)
      row_of(tile.q_pos[r], tile.k_pos[c], std::span(biases).subspan(c, at_once ? cols : 1));
    for (size_t c = 0; c < cols; ++c) row[c] += static_cast<T>(biases[c]);
  }
}

template <class T>
void add_by_distance(const DistanceTerm& term, const ScoreTile& tile, T* scores, int64_t stride) {
  add_rows(tile, scores, stride, [&](int64_t m, int64_t n, std::span<double> out) {
    term.fill(tile.head, tile.heads, m - n - static_cast<int64_t>(out.size()) + 1, out);
    std::reverse(out.begin(), out.end());
  });
}

template <class T>
void add_by_pairs(const PairTerm& term, const ScoreTile& tile, T* scores, int64_t stride) {
  add_rows(tile, scores, stride,
           [&](int64_t m, int64_t n, std::span<double> out) { term.fill(tile.head, tile.heads, m, n, out); });
}

// Hidden pairs are passed over: their distance may be one that was not prepared.
template <class T>
void add_by_vectors(const VectorTerm& term, const ScoreTile& tile, int dim, T* scores, int64_t stride) {
  using Side = VectorTerm::Side;
  const T scale = static_cast<T>(tile.scale);
  const bool of_query = term.has(Side::kQuery), of_key = term.has(Side::kKey);
  const float* bias = term.query_bias(tile.head);
  const float* key_vector = term.key_vector(tile.head);
  std::vector<float> with_bias(static_cast<size_t>(dim));
  for (size_t r = 0; r < tile.q_pos.size(); ++r) {
    const float* q = tile.q + static_cast<int64_t>(r) * tile.q_stride;
    if (bias != nullptr) {
      for (int i = 0; i < dim; ++i) with_bias[static_cast<size_t>(i)] = q[i] + bias[i];
      q = with_bias.data();
    }
    T* row = scores + static_cast<int64_t>(r) * stride;
    // Neighbours often share a vector: its product is formed once.
    int64_t last = 0;
    bool known = false;
    T product = 0;
    for (size_t c = 0; c < tile.k_pos.size(); ++c) {
      if (std::isinf(row[c]) && row[c] < 0) continue;
      const int64_t d = tile.q_pos[r] - tile.k_pos[c];
      const float* k = tile.k + static_cast<int64_t>(c) * tile.k_stride;
      T sum = 0;
      if (of_query) {
        const int64_t i = term.row(Side::kQuery, d);
        if (!known || i != last) product = dot_as<T>(q, term.vector(Side::kQuery, tile.head, i), dim);
        known = true;
        last = i;
        sum = product;
      }
      if (of_key) sum += dot_as<T>(k, term.vector(Side::kKey, tile.head, term.row(Side::kKey, d)), dim);
      if (key_vector != nullptr) sum += dot_as<T>(k, key_vector, dim);
      row[c] += scale * sum;
    }
  }
  if (term.has_rest()) term.add_rest(tile, scores, stride);
}

}  // namespace

std::vector<double>& EncodingGradients::of(const std::string& name, size_t size) {
  std::vector<double>& table = tables_[name];
  table.resize(size, 0.0);
  return table;
}

const std::vector<double>* EncodingGradients::find(const std::string& name) const {
  const auto found = tables_.find(name);
  return found == tables_.end() ? nullptr : &found->second;
}

void EncodingGradients::add(const EncodingGradients& other) {
  for (const auto& [name, table] : other.tables_) {
    std::vector<double>& to = of(name, table.size());
    for (size_t i = 0; i < table.size(); ++i) to[i] += table[i];
  }
}

void InputTerm::backward(std::span<const int64_t>, const float*, float*, int64_t, EncodingGradients&) const {}

void ScoreTerm::backward(const ScoreTile&, std::span<const double>, std::span<double>, const ContentGradient&,
                         EncodingGradients&) const {}

void VectorTerm::backward(const ScoreTile& row, std::span<const double>, std::span<double> gradient,
                          const ContentGradient& content, EncodingGradients& weights) const {
  const int dim = shape().dim, head = row.head;
  const float* v = query_bias(head);
  const float* u = key_vector(head);
  std::vector<float> query(row.q, row.q + dim);
  for (int i = 0; v != nullptr && i < dim; ++i) query[static_cast<size_t>(i)] += v[i];
  const auto scaled = [&](size_t c) { return row.scale * gradient[c]; };
  const auto add = [dim](double factor, const float* x, double* to) {
    for (int i = 0; to != nullptr && i < dim; ++i) to[i] += factor * static_cast<double>(x[i]);
  };
  // Neighbours that share a vector share its products.
  std::vector<float> by_query(static_cast<size_t>(dim), 0.0F), sum_of_keys(static_cast<size_t>(dim), 0.0F);
  for (size_t c = 0; c < gradient.size() && has(Side::kQuery);) {
    const int64_t i = this->row(Side::kQuery, row.q_pos[0] - row.k_pos[c]);
    double g = scaled(c);
    for (++c; c < gradient.size() && this->row(Side::kQuery, row.q_pos[0] - row.k_pos[c]) == i; ++c) g += scaled(c);
    if (g == 0) continue;
    ops::add_scaled(static_cast<float>(g), vector(Side::kQuery, head, i), dim, by_query.data());
    add(g, query.data(), vector_gradient(weights, Side::kQuery, head, i));
  }
  add(1, by_query.data(), query_bias_gradient(weights, head));
  ops::add_to(by_query.data(), dim, content.q);

  for (size_t c = 0; c < gradient.size() && has(Side::kKey);) {
    const int64_t j = this->row(Side::kKey, row.q_pos[0] - row.k_pos[c]);
    std::fill(sum_of_keys.begin(), sum_of_keys.end(), 0.0F);
    bool any = false;
    for (; c < gradient.size() && this->row(Side::kKey, row.q_pos[0] - row.k_pos[c]) == j; ++c) {
      if (gradient[c] == 0) continue;
      any = true;
      const auto at = static_cast<int64_t>(c);
      ops::add_scaled(static_cast<float>(scaled(c)), vector(Side::kKey, head, j), dim, content.k + at * content.k_stride);
      ops::add_scaled(static_cast<float>(scaled(c)), row.k + at * row.k_stride, dim, sum_of_keys.data());
    }
    if (any) add(1, sum_of_keys.data(), vector_gradient(weights, Side::kKey, head, j));
  }
  if (u != nullptr) {
    std::fill(sum_of_keys.begin(), sum_of_keys.end(), 0.0F);
    for (size_t c = 0; c < gradient.size(); ++c) {
      if (gradient[c] == 0) continue;
      const auto at = static_cast<int64_t>(c);
      ops::add_scaled(static_cast<float>(scaled(c)), u, dim, content.k + at * content.k_stride);
      ops::add_scaled(static_cast<float>(scaled(c)), row.k + at * row.k_stride, dim, sum_of_keys.data());
    }
    add(1, sum_of_keys.data(), key_vector_gradient(weights, head));
  }
  if (has_rest()) backward_rest(row, gradient, content, weights);
}

Result<void> ScoreTerm::prepare(int64_t, int64_t) const { return {}; }

void DistanceTerm::add(const ScoreTile& tile, float* scores, int64_t stride) const {
  add_by_distance(*this, tile, scores, stride);
}
void DistanceTerm::add(const ScoreTile& tile, double* scores, int64_t stride) const {
  add_by_distance(*this, tile, scores, stride);
}

void PairTerm::fill(int head, int heads, int64_t m, int64_t n, std::span<float> out) const {
  std::vector<double> exact(out.size());
  fill(head, heads, m, n, std::span(exact));
  std::transform(exact.begin(), exact.end(), out.begin(), [](double x) { return static_cast<float>(x); });
}
void PairTerm::add(const ScoreTile& tile, float* scores, int64_t stride) const { add_by_pairs(*this, tile, scores, stride); }
void PairTerm::add(const ScoreTile& tile, double* scores, int64_t stride) const { add_by_pairs(*this, tile, scores, stride); }

void VectorTerm::add(const ScoreTile& tile, float* scores, int64_t stride) const {
  add_by_vectors(*this, tile, shape().dim, scores, stride);
}
void VectorTerm::add(const ScoreTile& tile, double* scores, int64_t stride) const {
  add_by_vectors(*this, tile, shape().dim, scores, stride);
}

void ScoreTerm::add(const ScoreTile& tile, double* scores, int64_t stride) const {
  const auto rows = static_cast<int64_t>(tile.q_pos.size());
  const auto cols = static_cast<int64_t>(tile.k_pos.size());
  std::vector<float> term(static_cast<size_t>(rows * cols), 0.0F);
  add(tile, term.data(), cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) scores[r * stride + c] += static_cast<double>(term[static_cast<size_t>(r * cols + c)]);
  }
}

void PairMap::query_positions(uint64_t, std::span<const int64_t> m, std::span<double> out) const {
  for (size_t i = 0; i < m.size(); ++i) out[i] = static_cast<double>(m[i]);
}

void PairMap::key_positions(uint64_t, std::span<const int64_t> n, std::span<double> out) const {
  for (size_t i = 0; i < n.size(); ++i) out[i] = static_cast<double>(n[i]);
}

}  // namespace ropewalk
