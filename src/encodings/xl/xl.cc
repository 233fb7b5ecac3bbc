// Transformer-XL's relative scores (Dai et al. 2019, arXiv:1901.02860, section 3.3):
// s = [(q_m + u) . k_n + (q_m + v) . r_d] * scale, r_d = R_d W_r, R_d the sinusoid of d in halves.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "encodings/distance_cache.h"
#include "encodings/dot.h"
#include "encodings/registry.h"
#include "encodings/sinusoidal/sinusoid.h"
#include "simd/ops.h"

namespace ropewalk {
namespace {

constexpr int64_t kTogether = 8;  // distances whose vectors are formed with one reading of W_r

class TransformerXl : public VectorTerm {
 public:
  TransformerXl(const EncodingContext& context, double theta, const EncodingTables& tables)
      : heads_(context.heads),
        dim_(context.head_dim),
        width_(context.width),
        form_{SinusoidForm::Layout::kHalves, false, theta},
        frequencies_(sinusoid_frequencies(form_, width_)),
        wr_(tables["wr"].size()),
        u_(tables["u"]),
        v_(tables["v"]),
        vectors_(int64_t{heads_} * dim_, int64_t{1} << 28) {
    const std::vector<float>& wr = tables["wr"];
    const int64_t size = int64_t{heads_} * dim_;
    for (int64_t c = 0; c < width_; ++c) {
      for (int64_t i = 0; i < size; ++i) wr_[static_cast<size_t>(i * width_ + c)] = wr[static_cast<size_t>(c * size + i)];
    }
  }

  // Each distance has its own vector: d is looked up, never shifted, so both directions are right.
  Result<void> prepare(int64_t least, int64_t largest) const override {
    return vectors_.prepare("xl", least, largest, kTogether,
                            [this](int64_t first, int64_t count, float* to) { fill(first, count, to); });
  }

  TermShape shape() const override { return {heads_, dim_}; }
  bool has(Side side) const override { return side == Side::kQuery; }
  int64_t row(Side, int64_t d) const override { return d; }
  const float* vector(Side, int head, int64_t row) const override { return vectors_.find(row, row) + int64_t{head} * dim_; }
  const float* query_bias(int head) const override { return v_.data() + int64_t{head} * dim_; }
  const float* key_vector(int head) const override { return u_.data() + int64_t{head} * dim_; }

  // By r_d first, gathered for each head, and by W_r from them at the end.
  double* vector_gradient(EncodingGradients& weights, Side, int head, int64_t row) const override {
    int64_t least = 0;
    const int64_t count = vectors_.distances(least);
    return weights.of(by_head(head), static_cast<size_t>(count * dim_)).data() + (row - least) * dim_;
  }
  double* query_bias_gradient(EncodingGradients& weights, int head) const override {
    return weights.of("v", v_.size()).data() + int64_t{head} * dim_;
  }
  double* key_vector_gradient(EncodingGradients& weights, int head) const override {
    return weights.of("u", u_.size()).data() + int64_t{head} * dim_;
  }
  // dW_r = R^T dr, some distances at a time, so that their rows of dr stay in the cache.
  void finish_gradients(EncodingGradients& weights) const override {
    constexpr int64_t kRows = 32;
    int64_t least = 0;
    const int64_t count = vectors_.distances(least), size = int64_t{heads_} * dim_;
    std::vector<float> wr(wr_.size(), 0.0F), by_r(static_cast<size_t>(kRows * size)),
        sinusoids(static_cast<size_t>(kRows * width_));
    std::vector<double> exact(static_cast<size_t>(width_));
    for (int64_t first = 0; first < count; first += kRows) {
      const int64_t rows = std::min(kRows, count - first);
      for (int64_t row = 0; row < rows; ++row) {
        sinusoid(form_, frequencies_, static_cast<double>(least + first + row), width_, exact.data());
        std::transform(exact.begin(), exact.end(), sinusoids.begin() + row * width_,
                       [](double x) { return static_cast<float>(x); });
        for (int head = 0; head < heads_; ++head) {
          const std::vector<double>* from = weights.find(by_head(head));
          for (int i = 0; i < dim_; ++i) {
            by_r[static_cast<size_t>(row * size + head * dim_ + i)] =
                from == nullptr ? 0.0F : static_cast<float>((*from)[static_cast<size_t>((first + row) * dim_ + i)]);
          }
        }
      }
      parallel_for({available_cores()}, width_, [&](int64_t c, int) {
        for (int64_t row = 0; row < rows; ++row) {
          ops::add_scaled(sinusoids[static_cast<size_t>(row * width_ + c)], by_r.data() + row * size, size,
                          wr.data() + c * size);
        }
      });
    }
    std::vector<double>& to = weights.of("wr", wr.size());
    for (size_t i = 0; i < wr.size(); ++i) to[i] += static_cast<double>(wr[i]);
    for (int head = 0; head < heads_; ++head) weights.drop(by_head(head));
  }

 protected:
  static std::string by_head(int head) { return "r of head " + std::to_string(head); }
  int heads() const { return heads_; }
  int dim() const { return dim_; }

 private:
  void fill(int64_t first, int64_t count, float* to) const {
    std::vector<double> exact(static_cast<size_t>(width_));
    std::vector<float> sinusoids(static_cast<size_t>(count * width_));
    for (int64_t i = 0; i < count; ++i) {
      sinusoid(form_, frequencies_, static_cast<double>(first + i), width_, exact.data());
      std::transform(exact.begin(), exact.end(), sinusoids.begin() + i * width_,
                     [](double x) { return static_cast<float>(x); });
    }
    const int64_t size = int64_t{heads_} * dim_;
    for (int64_t i = 0; i < size; ++i) ops::dot_columns(wr_.data() + i * width_, sinusoids.data(), count, width_, to + i, size);
  }

  int heads_, dim_;
  int64_t width_;
  SinusoidForm form_;
  std::vector<double> frequencies_;
  std::vector<float> wr_;         // [H][D][C]
  std::vector<float> u_, v_;      // [H][D]
  DistanceCache<float> vectors_;  // [distances][H][D]
};

// XLNet's segments: a vector for pairs of one segment and one for pairs of two.
class XlNet : public TransformerXl {
 public:
  XlNet(const EncodingContext& context, double theta, const EncodingTables& tables)
      : TransformerXl(context, theta, tables), bias_(tables["s"]), segments_(tables["segment"]) {}
  bool has_rest() const override { return true; }
  void add_rest(const ScoreTile& tile, float* scores, int64_t stride) const override { add_segments(tile, scores, stride); }
  void add_rest(const ScoreTile& tile, double* scores, int64_t stride) const override { add_segments(tile, scores, stride); }

  void backward_rest(const ScoreTile& row, std::span<const double> gradient, const ContentGradient& content,
                     EncodingGradients& weights) const override {
    if (row.q_type.empty()) return;
    double by_same = 0, by_other = 0;
    for (size_t c = 0; c < gradient.size(); ++c)
      (row.k_type[c] == row.q_type[0] ? by_same : by_other) += row.scale * gradient[c];
    const int64_t at = int64_t{row.head} * dim(), second = int64_t{heads()} * dim() + at;
    std::vector<double>& bias = weights.of("s", bias_.size());
    std::vector<double>& segments = weights.of("segment", segments_.size());
    for (int i = 0; i < dim(); ++i) {
      const double query = static_cast<double>(row.q[i] + bias_[static_cast<size_t>(at + i)]);
      segments[static_cast<size_t>(at + i)] += by_same * query;
      segments[static_cast<size_t>(second + i)] += by_other * query;
      const double by_query = by_same * static_cast<double>(segments_[static_cast<size_t>(at + i)]) +
                              by_other * static_cast<double>(segments_[static_cast<size_t>(second + i)]);
      bias[static_cast<size_t>(at + i)] += by_query;
      content.q[i] += static_cast<float>(by_query);
    }
  }

 private:
  template <class T>
  void add_segments(const ScoreTile& tile, T* scores, int64_t stride) const {
    if (tile.q_type.empty()) return;
    const int64_t at = int64_t{tile.head} * dim();
    std::vector<float> query(static_cast<size_t>(dim()));
    for (size_t r = 0; r < tile.q_pos.size(); ++r) {
      const float* q = tile.q + static_cast<int64_t>(r) * tile.q_stride;
      for (int i = 0; i < dim(); ++i) query[static_cast<size_t>(i)] = q[i] + bias_[static_cast<size_t>(at + i)];
      const T scale = static_cast<T>(tile.scale);
      const T same = scale * dot_as<T>(query.data(), segments_.data() + at, dim());
      const T other = scale * dot_as<T>(query.data(), segments_.data() + int64_t{heads()} * dim() + at, dim());
      T* row = scores + static_cast<int64_t>(r) * stride;
      for (size_t c = 0; c < tile.k_type.size(); ++c) row[c] += tile.k_type[c] == tile.q_type[r] ? same : other;
    }
  }

  std::vector<float> bias_;      // [H][D]
  std::vector<float> segments_;  // [2][H][D]
};

std::vector<EncodingWeight> shapes(const EncodingArguments&, const EncodingContext& context) {
  return {{"wr", {context.width, context.heads, context.head_dim}, {}},
          {"u", {context.heads, context.head_dim}, {}},
          {"v", {context.heads, context.head_dim}, {}}};
}

double initial(const std::string& table, double normal) { return (table == "wr" ? 0.1 : 0.3) * normal; }

const EncodingParameter kTheta = {"theta", "base of the sinusoids", 10000, 1, 1e12, false};

}  // namespace

const EncodingEntry& encoding_xl() {
  static const EncodingEntry entry = {
      .info = {.name = "xl",
               .title = "Transformer-XL's relative scores",
               .family = "content",
               .formula = "s = [(q_m + u) . k_n + (q_m + v) . r_d] * scale, r_d = R_d W_r, R_d = [sines | cosines] of d",
               .summary =
                   "The expansion of the sinusoidal encoding's product with the positions made relative: a vector for every "
                   "distance, made from sinusoids by a learned map, and two learned vectors in place of the query's position.",
               .used_by = "Transformer-XL",
               .source = "Dai et al. 2019, arXiv:1901.02860, section 3.3",
               .cost = "a second product of queries with as many vectors as keys, and a table of distances",
               .parameters = {kTheta},
               .points = {.score = true},
               .shift_invariant = true},
      .shapes = shapes,
      .initial = initial,
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables& tables) -> Result<PositionEncoding> {
        PositionEncoding encoding;
        encoding.score = std::make_shared<TransformerXl>(context, arguments["theta"], tables);
        return encoding;
      }};
  return entry;
}

const EncodingEntry& encoding_xlnet() {
  static const EncodingEntry entry = {
      .info = {.name = "xlnet",
               .title = "XLNet's relative scores",
               .family = "content",
               .formula = "s = [(q_m + u) . k_n + (q_m + v) . r_d + (q_m + s) . seg[same or not]] * scale",
               .summary = "Transformer-XL's scores in both directions, and a term for whether two tokens belong to one segment "
                          "(their types; without types it is left out).",
               .used_by = "XLNet",
               .source = "Yang et al. 2019, arXiv:1906.08237, section 2.5",
               .cost = "as xl, and two products a query",
               .parameters = {kTheta},
               .points = {.score = true},
               .shift_invariant = true},
      .shapes = [](const EncodingArguments& arguments, const EncodingContext& context) -> std::vector<EncodingWeight> {
        std::vector<EncodingWeight> list = shapes(arguments, context);
        list.push_back({"s", {context.heads, context.head_dim}, {}});
        list.push_back({"segment", {2, context.heads, context.head_dim}, {}});
        return list;
      },
      .initial = initial,
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables& tables) -> Result<PositionEncoding> {
        PositionEncoding encoding;
        encoding.score = std::make_shared<XlNet>(context, arguments["theta"], tables);
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
