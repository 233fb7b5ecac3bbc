// Shaw's relative position vectors (Shaw et al. 2018, arXiv:1803.02155, equations 3 to 5), and BERT's two forms of them.
#include <algorithm>
#include <memory>
#include <vector>

#include "encodings/dot.h"
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

class KeySide : public ScoreTerm {
 public:
  KeySide(Table table, bool query_side) : table_(std::move(table)), query_side_(query_side) {}
  TermShape shape() const override { return table_.shape(); }
  void add(const ScoreTile& tile, float* scores, int64_t stride) const override { add_to(tile, scores, stride); }
  void add(const ScoreTile& tile, double* scores, int64_t stride) const override { add_to(tile, scores, stride); }
  bool needs_content() const override { return true; }

 private:
  template <class T>
  void add_to(const ScoreTile& tile, T* scores, int64_t stride) const {
    const T scale = static_cast<T>(tile.scale);
    const auto cols = static_cast<int64_t>(tile.k_pos.size());
    const bool in_order = consecutive(tile.k_pos);
    std::vector<T> products(static_cast<size_t>(table_.rows()));
    std::vector<size_t> made(products.size(), 0);
    for (size_t r = 0; r < tile.q_pos.size(); ++r) {
      const float* q = tile.q + static_cast<int64_t>(r) * tile.q_stride;
      T* row = scores + static_cast<int64_t>(r) * stride;
      // The offsets of a row are few: each product with q is formed once, when its first key comes.
      const auto product = [&](int64_t at) {
        const auto i = static_cast<size_t>(at);
        if (made[i] != r + 1) products[i] = scale * dot_as<T>(q, table_.row(tile.head, at), table_.dim());
        made[i] = r + 1;
        return products[i];
      };
      const Ramp ramp = in_order ? table_.ramp(tile.q_pos[r] - tile.k_pos[0], cols) : Ramp{0, cols};
      if (ramp.first > 0) add_constant(product(table_.index(tile.q_pos[r] - tile.k_pos[0])), ramp.first, row);
      for (int64_t c = ramp.first; c < ramp.last; ++c)
        row[c] += product(table_.index(tile.q_pos[r] - tile.k_pos[static_cast<size_t>(c)]));
      if (ramp.last < cols)
        add_constant(product(table_.index(tile.q_pos[r] - tile.k_pos.back())), cols - ramp.last, row + ramp.last);
      for (int64_t c = 0; query_side_ && c < cols; ++c) {
        const float* a = table_.row(tile.head, table_.index(tile.q_pos[r] - tile.k_pos[static_cast<size_t>(c)]));
        row[c] += scale * dot_as<T>(tile.k + c * tile.k_stride, a, table_.dim());
      }
    }
  }
  template <class T>
  static void add_constant(T value, int64_t count, T* row) {
    for (int64_t c = 0; c < count; ++c) row[c] += value;
  }

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
