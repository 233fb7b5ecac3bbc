// Shaw's relative position vectors (Shaw et al. 2018, arXiv:1803.02155, equations 3 to 5), and BERT's two forms of them.
#include <algorithm>
#include <memory>
#include <vector>

#include "encodings/registry.h"
#include "simd/ops.h"

namespace ropewalk {
namespace {

// The columns of a row of consecutive keys whose offset is not clipped: [first, last). Before and after it is constant.
struct Ramp {
  int64_t first, last;
};

bool consecutive(std::span<const int64_t> positions) {
  for (size_t i = 1; i < positions.size(); ++i) {
    if (positions[i] != positions[i - 1] + 1) return false;
  }
  return !positions.empty();
}

// Rows of a table [2K + 1][D], shared by heads or one table a head. Shaw counts r = n - m, BERT's code m - n.
class Table {
 public:
  Table(std::vector<float> values, int64_t reach, int dim, bool per_head, bool forward)
      : values_(std::move(values)), reach_(reach), dim_(dim), per_head_(per_head), forward_(forward) {}
  int64_t index(int64_t d) const { return std::clamp(forward_ ? d : -d, -reach_, reach_) + reach_; }
  const float* row(int head, int64_t index) const {
    return values_.data() + ((per_head_ ? head * (2 * reach_ + 1) : 0) + index) * dim_;
  }
  // d of the first of `cols` consecutive keys.
  Ramp ramp(int64_t d, int64_t cols) const {
    const int64_t first = std::clamp<int64_t>(d - reach_, 0, cols);
    return {first, std::clamp<int64_t>(d + reach_, first, cols)};
  }
  double* gradient(EncodingGradients& weights, const char* name, int head, int64_t index) const {
    return weights.of(name, values_.size()).data() + (row(head, index) - values_.data());
  }
  int64_t rows() const { return 2 * reach_ + 1; }
  int dim() const { return dim_; }
  TermShape shape() const {
    return {per_head_ ? static_cast<int>(static_cast<int64_t>(values_.size()) / (rows() * dim_)) : 0, dim_};
  }

 private:
  std::vector<float> values_;
  int64_t reach_;
  int dim_;
  bool per_head_, forward_;
};

class KeySide : public VectorTerm {
 public:
  KeySide(Table table, bool query_side) : table_(std::move(table)), query_side_(query_side) {}
  TermShape shape() const override { return table_.shape(); }
  bool has(Side side) const override { return side == Side::kQuery || query_side_; }
  int64_t row(Side, int64_t d) const override { return table_.index(d); }
  const float* vector(Side, int head, int64_t row) const override { return table_.row(head, row); }
  bool shared(Side) const override { return table_.shape().heads == 0; }
  double* vector_gradient(EncodingGradients& weights, Side, int head, int64_t row) const override {
    return table_.gradient(weights, "key", head, row);
  }

 private:
  Table table_;
  bool query_side_;
};

class ValueSide : public ValueTerm {
 public:
  explicit ValueSide(Table table) : table_(std::move(table)) {}
  TermShape shape() const override { return table_.shape(); }
  void add(const ScoreTile& tile, const float* weights, int64_t stride, float* out, int64_t out_stride) const override {
    const auto cols = static_cast<int64_t>(tile.k_pos.size());
    const bool in_order = consecutive(tile.k_pos);
    std::vector<float> sums(static_cast<size_t>(table_.rows()));
    for (size_t r = 0; r < tile.q_pos.size(); ++r) {
      const float* row = weights + static_cast<int64_t>(r) * stride;
      const int64_t d = tile.q_pos[r] - (cols > 0 ? tile.k_pos[0] : 0);
      const Ramp ramp = in_order ? table_.ramp(d, cols) : Ramp{0, cols};
      std::fill(sums.begin(), sums.end(), 0.0F);
      int64_t first = table_.rows();
      int64_t last = -1;
      const auto take = [&](int64_t at, float weight) {
        sums[static_cast<size_t>(at)] += weight;
        first = std::min(first, at);
        last = std::max(last, at);
      };
      if (ramp.first > 0) take(table_.index(d), ops::sum(row, ramp.first));
      for (int64_t c = ramp.first; c < ramp.last; ++c)
        take(table_.index(tile.q_pos[r] - tile.k_pos[static_cast<size_t>(c)]), row[c]);
      if (ramp.last < cols) take(table_.index(tile.q_pos[r] - tile.k_pos.back()), ops::sum(row + ramp.last, cols - ramp.last));
      float* to = out + static_cast<int64_t>(r) * out_stride;
      for (int64_t at = first; at <= last; ++at) {
        const float weight = sums[static_cast<size_t>(at)];
        if (weight == 0) continue;
        const float* a = table_.row(tile.head, at);
        for (int i = 0; i < table_.dim(); ++i) to[i] += weight * a[i];
      }
    }
  }

  void backward(const ScoreTile& row, std::span<const double> weights, const float* out_gradient, std::span<double> gradient,
                EncodingGradients& tables) const override {
    for (size_t c = 0; c < weights.size(); ++c) {
      const int64_t at = table_.index(row.q_pos[0] - row.k_pos[c]);
      const float* a = table_.row(row.head, at);
      double* by_a = table_.gradient(tables, "value", row.head, at);
      for (int i = 0; i < table_.dim() && weights[c] != 0; ++i) {
        gradient[c] += static_cast<double>(out_gradient[i]) * static_cast<double>(a[i]);
        by_a[i] += weights[c] * static_cast<double>(out_gradient[i]);
      }
    }
  }

 private:
  Table table_;
};

std::vector<EncodingWeight> shapes(const EncodingArguments& arguments, const EncodingContext& context) {
  const int64_t rows = 2 * arguments.whole("reach") + 1;
  std::vector<int64_t> shape = {rows, context.head_dim};
  if (arguments["per_head"] != 0) shape.insert(shape.begin(), context.heads);
  std::vector<EncodingWeight> list = {{"key", shape, {}}};
  if (arguments["value"] != 0) list.push_back({"value", shape, {}});
  return list;
}

}  // namespace

const EncodingEntry& encoding_shaw() {
  static const EncodingEntry entry = {
      .info =
          {.name = "shaw",
           .title = "Relative position vectors",
           .family = "content",
           .formula = "s += scale * q_m . aK[r], o_m += sum_n a_mn aV[r], r = clip(n - m, -reach, reach)",
           .summary =
               "A learned vector for each clipped offset, which the query meets like a key, and which is added to the value. "
               "BERT's relative_key is the key side alone with offsets m - n (bert=1:value=0); relative_key_query adds "
               "k_n . aK[r] (query=1).",
           .used_by = "Music Transformer, BERT variants (relative_key), speech models",
           .source = "Shaw et al. 2018, arXiv:1803.02155",
           .cost = "2 reach + 1 products a query in near tiles, one in far ones; the value side as much",
           .parameters = {{"reach", "offsets beyond it share a vector (K)", 16, 0, 65536, true},
                          {"value", "0: no value side", 1, 0, 1, true},
                          {"query", "1: also k_n . aK[r]", 0, 0, 1, true},
                          {"per_head", "1: a table for each head", 0, 0, 1, true},
                          {"bert", "1: offsets count m - n, as in BERT's code", 0, 0, 1, true}},
           .points = {.score = true, .value = true},
           .shift_invariant = true},
      .shapes = shapes,
      .initial = [](const std::string&, double normal) { return 0.1 * normal; },
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables& tables) -> Result<PositionEncoding> {
        const auto table = [&](const char* name) {
          return Table(tables[name], arguments.whole("reach"), context.head_dim, arguments["per_head"] != 0,
                       arguments["bert"] != 0);
        };
        PositionEncoding encoding;
        encoding.score = std::make_shared<KeySide>(table("key"), arguments["query"] != 0);
        if (arguments["value"] != 0) encoding.value = std::make_shared<ValueSide>(table("value"));
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
