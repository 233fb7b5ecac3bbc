// T5's buckets: b_h[bucket(n - m)] (Raffel et al. 2019, arXiv:1910.10683, section 2.1; buckets as in the reference code).
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/fail.h"
#include "encodings/registry.h"

namespace ropewalk {
namespace {

// The reference's bucket of the offset n - m = -d. Its logarithm is float32: so is ours, since models were trained with its
// edges.
int bucket_of(int64_t d, bool bidirectional, int buckets, int max_distance) {
  int first = 0;
  int64_t distance = std::max<int64_t>(d, 0);
  if (bidirectional) {
    buckets /= 2;
    first = d < 0 ? buckets : 0;
    distance = std::abs(d);
  }
  const int exact = buckets / 2;
  if (distance < exact) return first + static_cast<int>(distance);
  const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(max_distance) / exact));
  const auto large = static_cast<int64_t>(ratio * static_cast<float>(buckets - exact));
  return first + static_cast<int>(std::min<int64_t>(exact + large, buckets - 1));
}

class T5 : public DistanceTerm {
 public:
  T5(std::vector<float> table, int heads, bool bidirectional, int buckets, int max_distance)
      : table_(std::move(table)),
        heads_(heads),
        bidirectional_(bidirectional),
        buckets_(buckets),
        max_distance_(max_distance) {}
  TermShape shape() const override { return {heads_, 0}; }
  void fill(int head, int, int64_t first, std::span<double> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      const int bucket = bucket_of(first + static_cast<int64_t>(i), bidirectional_, buckets_, max_distance_);
      out[i] =
          static_cast<double>(table_[static_cast<size_t>(bucket) * static_cast<size_t>(heads_) + static_cast<size_t>(head)]);
    }
  }

  void backward(const ScoreTile& row, std::span<const double>, std::span<double> gradient, const ContentGradient&,
                EncodingGradients& weights) const override {
    std::vector<double>& table = weights.of("table", table_.size());
    for (size_t c = 0; c < gradient.size(); ++c) {
      const int bucket = bucket_of(row.q_pos[0] - row.k_pos[c], bidirectional_, buckets_, max_distance_);
      table[static_cast<size_t>(bucket) * static_cast<size_t>(heads_) + static_cast<size_t>(row.head)] += gradient[c];
    }
  }

 private:
  std::vector<float> table_;  // [buckets][H]
  int heads_;
  bool bidirectional_;
  int buckets_, max_distance_;
};

}  // namespace

const EncodingEntry& encoding_t5() {
  static const EncodingEntry entry = {
      .info = {.name = "t5",
               .title = "T5's relative buckets",
               .family = "relative",
               .formula =
                   "b_h(d) = table[bucket(-d)][h]: near distances one bucket each, far ones in logarithmic steps to `max`",
               .summary =
                   "A learned bias for each bucket of distances, shared by all layers in T5. Distances beyond `max` share the "
                   "last bucket.",
               .used_by = "T5, FLAN-T5, UL2, MPNet (with its own buckets)",
               .source = "Raffel et al. 2019, arXiv:1910.10683",
               .cost = "a table of H by T + S floats a call",
               .parameters = {{"buckets", "number of buckets", 32, 4, 65536, true},
                              {"max", "distance from which on all share the last bucket", 128, 2, 2147483647, true},
                              {"bidirectional", "1: half of the buckets for keys ahead (encoders)", 0, 0, 1, true}},
               .points = {.score = true},
               .shift_invariant = true},
      .shapes = [](const EncodingArguments& arguments, const EncodingContext& context) -> std::vector<EncodingWeight> {
        return {{"table", {arguments.whole("buckets"), context.heads}, {}}};
      },
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables& tables) -> Result<PositionEncoding> {
        const bool bidirectional = arguments["bidirectional"] != 0;
        const auto buckets = static_cast<int>(arguments.whole("buckets"));
        const auto max = static_cast<int>(arguments.whole("max"));
        const int exact = buckets / (bidirectional ? 4 : 2);
        if (bidirectional && buckets % 2 != 0) {
          return fail(ErrorCode::kInvalidArgument,
                      "[encoding] t5: buckets: expected an even number with bidirectional=1, but got {}", buckets);
        }
        if (max <= exact) {
          return fail(ErrorCode::kInvalidArgument, "[encoding] t5: max: expected more than the {} exact buckets, but got {}",
                      exact, max);
        }
        PositionEncoding encoding;
        encoding.score = std::make_shared<T5>(tables["table"], context.heads, bidirectional, buckets, max);
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
