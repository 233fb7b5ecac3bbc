#include "engine/reference_forward.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fail.h"

namespace ropewalk {
namespace {

using Vector = std::vector<double>;

// A stored tensor as doubles, row after row.
struct Weights {
  Vector values;
  int64_t rows = 0, cols = 0;
  bool present() const { return !values.empty(); }
  const double* row(int64_t r) const { return values.data() + r * cols; }
};

Weights read(const StoredTensor* tensor) {
  if (tensor == nullptr) return {};
  std::vector<float> stored(static_cast<size_t>(tensor->elements()));
  dequantize_rows(*tensor, 0, tensor->rows(), stored.data());
  return {Vector(stored.begin(), stored.end()), tensor->rows(), tensor->cols()};
}

// x [K] -> W x [N]
Vector multiply(const Weights& w, const double* x) {
  Vector out(static_cast<size_t>(w.rows), 0.0);
  for (int64_t r = 0; r < w.rows; ++r) {
    for (int64_t c = 0; c < w.cols; ++c) out[static_cast<size_t>(r)] += w.row(r)[c] * x[c];
  }
  return out;
}

// RMS norm in place: x / sqrt(mean(x^2) + epsilon) * (w + plus), over n numbers.
void normalize(double* x, int64_t n, const Weights& w, const ModelSpec& spec) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(n) + spec.norm_epsilon);
  const double plus = spec.norm_plus_one ? 1 : 0;
  for (int64_t i = 0; i < n; ++i) x[i] *= inverse * (w.values[static_cast<size_t>(i)] + plus);
}

void add(Vector& x, const Vector& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

double activate(Activation activation, double z) {
  if (activation == Activation::kSilu) return z / (1 + std::exp(-z));
  return 0.5 * z * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
}

// x [D] turned to position m: plane i by the angle m * inv_freq[i].
Vector turn(const RotarySchedule& s, const double* x, int dim, double m) {
  Vector out(x, x + dim);
  const int planes = static_cast<int>(s.inv_freq.size());
  for (int i = 0; i < planes; ++i) {
    const int a = s.rotated.begin + (s.pairing == Pairing::kHalves ? i : 2 * i);
    const int b = s.pairing == Pairing::kHalves ? a + planes : a + 1;
    const double angle = m * s.inv_freq[static_cast<size_t>(i)];
    const double c = std::cos(angle) * s.amplitude, n = std::sin(angle) * s.amplitude;
    out[static_cast<size_t>(a)] = x[a] * c - x[b] * n;
    out[static_cast<size_t>(b)] = x[a] * n + x[b] * c;
  }
  return out;
}

// The score of query m and key n, before the soft cap: scale * multipliers * <turn(q, m), turn(k, n)>.
double score(const AppliedLayer& position, double scale, const double* q, int64_t m, const double* k, int64_t n, int dim) {
  const RotarySchedule* schedule = position.rotary ? &*position.rotary : nullptr;
  double m_used = static_cast<double>(m), n_used = static_cast<double>(n);
  if (position.pairs != nullptr) {
    const PairMap& map = *position.pairs;
    const uint64_t side = map.choose({m, m}, {n, n}).at(m, n);
    schedule = &map.schedule(side);
    map.query_positions(side, std::span(&m, 1), std::span(&m_used, 1));
    map.key_positions(side, std::span(&n, 1), std::span(&n_used, 1));
  }
  Vector query(q, q + dim), key(k, k + dim);
  if (schedule != nullptr) {
    query = turn(*schedule, q, dim, m_used);
    key = turn(*schedule, k, dim, n_used);
    scale *= schedule->softmax_multiplier * query_multiplier(schedule->query_temperature, m);
  }
  double sum = 0;
  for (int i = 0; i < dim; ++i) sum += query[static_cast<size_t>(i)] * key[static_cast<size_t>(i)];
  return sum * scale;
}

// q [T][H][D], k and v [T][Hkv][D] -> out [T][H][D]; token t stands at position t.
Vector attend(const ModelSpec& spec, const AppliedLayer& position, const Vector& q, const Vector& k, const Vector& v,
              int64_t tokens) {
  const int64_t d = spec.head_dim, group = spec.heads / spec.kv_heads;
  const double scale = spec.attention_scale > 0 ? spec.attention_scale : 1 / std::sqrt(static_cast<double>(d));
  Vector out(q.size(), 0.0);
  for (int64_t m = 0; m < tokens; ++m) {
    for (int64_t h = 0; h < spec.heads; ++h) {
      const Reach& reach = position.reach;
      Vector weights;  // [m + 1]
      for (int64_t n = 0; n <= m; ++n) {
        const bool inside = reach.window == 0 || m - n < reach.window || n < reach.sinks;
        if (!inside || (reach.chunk > 0 && n / reach.chunk != m / reach.chunk)) {
          weights.push_back(-std::numeric_limits<double>::infinity());
          continue;
        }
        const double* query = q.data() + (m * spec.heads + h) * d;
        const double* key = k.data() + (n * spec.kv_heads + h / group) * d;
        double s = score(position, scale, query, m, key, n, spec.head_dim);
        if (spec.attention_softcap > 0) s = spec.attention_softcap * std::tanh(s / spec.attention_softcap);
        weights.push_back(s);
      }
      const double top = *std::max_element(weights.begin(), weights.end());
      double sum = 0;
      for (double& w : weights) sum += (w = std::exp(w - top));
      for (int64_t n = 0; n <= m; ++n) {
        const double weight = weights[static_cast<size_t>(n)] / sum;
        for (int64_t i = 0; i < d; ++i) {
          out[static_cast<size_t>((m * spec.heads + h) * d + i)] +=
              weight * v[static_cast<size_t>((n * spec.kv_heads + h / group) * d + i)];
        }
      }
    }
  }
  return out;
}

// x [T][C] += attention block.
void attention_block(const ModelSpec& spec, const LayerSpec& layer, const AppliedLayer& position, std::vector<Vector>& x) {
  const Weights norm = read(layer.attn_norm), wq = read(layer.wq), wk = read(layer.wk), wv = read(layer.wv),
                wo = read(layer.wo);
  const Weights bq = read(layer.bq), bk = read(layer.bk), bv = read(layer.bv);
  const Weights q_norm = read(layer.q_norm), k_norm = read(layer.k_norm), post_norm = read(layer.post_attn_norm);
  const auto tokens = static_cast<int64_t>(x.size());
  Vector q, k, v;  // [T][H][D], [T][Hkv][D], [T][Hkv][D]
  const auto project = [&](const Weights& w, const Weights& bias, const Weights& head_norm, const double* h, Vector& to) {
    Vector y = multiply(w, h);
    if (bias.present()) add(y, bias.values);
    if (head_norm.present()) {
      for (size_t head = 0; head < y.size(); head += static_cast<size_t>(spec.head_dim))
        normalize(&y[head], spec.head_dim, head_norm, spec);
    }
    to.insert(to.end(), y.begin(), y.end());
  };
  for (const Vector& row : x) {
    Vector h = row;
    normalize(h.data(), spec.width, norm, spec);
    project(wq, bq, q_norm, h.data(), q);
    project(wk, bk, k_norm, h.data(), k);
    project(wv, bv, {}, h.data(), v);
  }
  const Vector o = attend(spec, position, q, k, v, tokens);
  for (int64_t t = 0; t < tokens; ++t) {
    Vector y = multiply(wo, o.data() + t * spec.heads * spec.head_dim);
    if (post_norm.present()) normalize(y.data(), spec.width, post_norm, spec);
    add(x[static_cast<size_t>(t)], y);
  }
}

// x [T][C] += Wd (act(Wg h) * (Wu h)), h = norm(x).
void feed_forward_block(const ModelSpec& spec, const LayerSpec& layer, std::vector<Vector>& x) {
  const Weights norm = read(layer.ffn_norm), gate = read(layer.w_gate), up = read(layer.w_up), down = read(layer.w_down);
  const Weights post_norm = read(layer.post_ffn_norm);
  for (Vector& row : x) {
    Vector h = row;
    normalize(h.data(), spec.width, norm, spec);
    Vector g = multiply(gate, h.data());  // [F]
    const Vector u = multiply(up, h.data());
    for (size_t i = 0; i < g.size(); ++i) g[i] = activate(spec.activation, g[i]) * u[i];
    Vector y = multiply(down, g.data());  // [C]
    if (post_norm.present()) normalize(y.data(), spec.width, post_norm, spec);
    add(row, y);
  }
}

}  // namespace

Result<std::vector<double>> reference_forward(const ModelSpec& spec, const LayerPositions& positions,
                                              std::span<const int32_t> tokens) {
  if (positions.size() != spec.layers.size()) {
    return fail(ErrorCode::kInvalidArgument, "[reference] expected a position scheme for each of {} layers, but got {}",
                spec.layers.size(), positions.size());
  }
  const Weights embedding = read(spec.token_embedding), output_norm = read(spec.output_norm), output = read(spec.output);
  std::vector<Vector> x;  // [T][C]
  for (const int32_t token : tokens) {
    if (token < 0 || token >= spec.vocabulary) {
      return fail(ErrorCode::kInvalidArgument, "[reference] expected a token below {}, but got {}", spec.vocabulary, token);
    }
    Vector row(embedding.row(token), embedding.row(token) + spec.width);
    for (double& value : row) value *= spec.embedding_scale;
    x.push_back(std::move(row));
  }
  for (size_t l = 0; l < spec.layers.size(); ++l) {
    attention_block(spec, spec.layers[l], positions[l], x);
    feed_forward_block(spec, spec.layers[l], x);
  }
  Vector logits;  // [T][V]
  for (Vector& row : x) {
    normalize(row.data(), spec.width, output_norm, spec);
    for (double logit : multiply(output, row.data())) {
      logits.push_back(spec.logit_softcap > 0 ? spec.logit_softcap * std::tanh(logit / spec.logit_softcap) : logit);
    }
  }
  return logits;
}

}  // namespace ropewalk
