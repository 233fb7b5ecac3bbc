// CoPE: positions counted by content (Golovneva et al. 2024, arXiv:2405.18719, equations 3 to 5).
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "encodings/dot.h"
#include "encodings/registry.h"

namespace ropewalk {
namespace {

// The gate of a key is sigmoid of its score; the position of key n seen from query m is the sum of the gates from n up to m,
// at most P - 1; the term is q_m . e[p], linear between whole positions. A row's sum runs from near keys to far ones, tile by
// tile. Keys ahead of the query count nothing, and stand at position 0 with it.
class Cope : public ScoreTerm {
 public:
  Cope(const EncodingContext& context, int64_t positions, std::vector<float> table)
      : dim_(context.head_dim), positions_(positions), table_(std::move(table)) {}

  TermShape shape() const override { return {0, dim_}; }
  bool needs_content() const override { return true; }
  int64_t row_state() const override { return 1; }
  void add(const ScoreTile& tile, float* scores, int64_t stride) const override { add_to(tile, scores, stride); }
  void add(const ScoreTile& tile, double* scores, int64_t stride) const override { add_to(tile, scores, stride); }

  // A gate moves the position of every key at or behind its own.
  void backward(const ScoreTile& row, std::span<const double> scores, std::span<double> gradient,
                const ContentGradient& content, EncodingGradients& weights) const override {
    std::vector<double> products(static_cast<size_t>(positions_)), by_product(products.size(), 0.0), by_position(scores.size());
    for (int64_t p = 0; p < positions_; ++p)
      products[static_cast<size_t>(p)] = dot_as<double>(row.q, table_.data() + p * dim_, dim_);
    double sum = 0;
    for (size_t c = scores.size(); c-- > 0;) {
      if (!std::isfinite(scores[c])) continue;
      const bool ahead = row.k_pos[c] > row.q_pos[0];
      if (!ahead) sum += 1 / (1 + std::exp(-scores[c]));
      const double p = std::min(ahead ? 0.0 : sum, last());
      const auto low = static_cast<size_t>(p);
      const size_t high = std::min(low + 1, products.size() - 1);
      const double share = p - static_cast<double>(low);
      by_product[low] += gradient[c] * (1 - share);
      by_product[high] += gradient[c] * share;
      if (!ahead && sum < last()) by_position[c] = gradient[c] * (products[high] - products[low]);
    }
    double behind = 0;
    for (size_t c = 0; c < scores.size(); ++c) {
      if (!std::isfinite(scores[c]) || row.k_pos[c] > row.q_pos[0]) continue;
      behind += by_position[c];
      const double gate = 1 / (1 + std::exp(-scores[c]));
      gradient[c] += behind * gate * (1 - gate);
    }
    std::vector<double>& table = weights.of("embedding", table_.size());
    for (size_t p = 0; p < products.size(); ++p) {
      if (by_product[p] == 0) continue;
      for (int i = 0; i < dim_; ++i) {
        const size_t at = p * static_cast<size_t>(dim_) + static_cast<size_t>(i);
        table[at] += by_product[p] * static_cast<double>(row.q[i]);
        content.q[i] += static_cast<float>(by_product[p] * static_cast<double>(table_[at]));
      }
    }
  }

 private:
  template <class T>
  void add_to(const ScoreTile& tile, T* scores, int64_t stride) const {
    std::vector<T> products(static_cast<size_t>(positions_));
    for (size_t r = 0; r < tile.q_pos.size(); ++r) {
      const float* q = tile.q + static_cast<int64_t>(r) * tile.q_stride;
      T* row = scores + static_cast<int64_t>(r) * stride;
      double& sum = tile.state[static_cast<int64_t>(r) * tile.state_stride];
      int64_t made = 0;
      // Sums only grow along a row, so products with e are formed as they are reached, each once.
      if (sum > 0) made = static_cast<int64_t>(std::min(sum, last()));
      const int64_t first = made;
      const auto product = [&](int64_t p) {
        for (; made <= p; ++made) products[static_cast<size_t>(made)] = dot_as<T>(q, table_.data() + made * dim_, dim_);
        return products[static_cast<size_t>(p)];
      };
      for (size_t c = tile.k_pos.size(); c-- > 0;) {
        if (sum >= last()) {  // so are all keys before it: one product more
          add_constant(product(positions_ - 1), tile, r, c + 1, row);
          break;
        }
        const auto s = static_cast<double>(row[c]);
        const bool ahead = tile.k_pos[c] > tile.q_pos[r];
        if (!std::isfinite(s)) continue;  // hidden, or lost already
        if (!ahead) sum += 1 / (1 + std::exp(-s));
        const double p = std::min(ahead ? 0.0 : sum, last());
        const auto low = static_cast<int64_t>(p);
        const int64_t high = std::min(low + 1, positions_ - 1);
        const T share = static_cast<T>(p - static_cast<double>(low));
        if (low < first) {  // a key ahead, after others
          row[c] += dot_as<T>(q, table_.data(), dim_);
          continue;
        }
        const T at_low = product(low);
        row[c] += at_low + share * (product(high) - at_low);
      }
    }
  }
  // Hidden scores stay hidden. Keys ahead of the query stand at 0.
  template <class T>
  void add_constant(T far, const ScoreTile& tile, size_t r, size_t count, T* row) const {
    bool ahead = false;
    for (size_t c = 0; c < count; ++c) ahead = ahead || tile.k_pos[c] > tile.q_pos[r];
    if (!ahead) {
      for (size_t c = 0; c < count; ++c) row[c] += far;
      return;
    }
    const T near = dot_as<T>(tile.q + static_cast<int64_t>(r) * tile.q_stride, table_.data(), dim_);
    for (size_t c = 0; c < count; ++c) row[c] += tile.k_pos[c] > tile.q_pos[r] ? near : far;
  }
  double last() const { return static_cast<double>(positions_ - 1); }

  int dim_;
  int64_t positions_;
  std::vector<float> table_;  // [P][D]
};

}  // namespace

const EncodingEntry& encoding_cope() {
  static const EncodingEntry entry = {
      .info =
          {.name = "cope",
           .title = "Contextual position encoding (CoPE)",
           .family = "content",
           .formula = "p_mn = min(sum_{j=n..m} sigmoid(s_mj), P - 1), s += q_m . e[p_mn], linear between whole positions",
           .summary =
               "A key counts as far as the text between says: each key between it and the query adds a gate between 0 and 1, "
               "made from its own score. Positions can so count words or sentences and not tokens.",
           .source = "Golovneva et al. 2024, arXiv:2405.18719",
           .cost = "a sigmoid a pair, P products a query; the keys of a row in order",
           .parameters = {{"positions", "rows of the table (P)", 64, 1, 65536, true}},
           .points = {.score = true},
           .shift_invariant = true},
      .shapes = [](const EncodingArguments& arguments, const EncodingContext& context) -> std::vector<EncodingWeight> {
        return {{"embedding", {arguments.whole("positions"), context.head_dim}, {}}};
      },
      .initial = [](const std::string&, double normal) { return 0.02 * normal; },
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables& tables) -> Result<PositionEncoding> {
        PositionEncoding encoding;
        encoding.score = std::make_shared<Cope>(context, arguments.whole("positions"), tables["embedding"]);
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
