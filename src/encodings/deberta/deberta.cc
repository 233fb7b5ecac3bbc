// DeBERTa's disentangled scores (He et al. 2020, arXiv:2006.03654, equations 2 to 4; v2 and v3: buckets as in the authors'
// code).
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/fail.h"
#include "encodings/registry.h"

namespace ropewalk {
namespace {

struct Form {
  int64_t span = 256;  // K: the tables have 2 K rows
  int64_t max = 0;     // 0: every distance its row (v1); else logarithmic buckets up to it
  bool paper = false;  // p2c by delta(n - m), as the paper writes; else by delta(m - n), as every checkpoint was trained
};

// The row of a distance: delta(x) = clip(x + K, 0, 2K - 1), x the distance or its bucket. The logarithm is float32 as in the
// reference.
int64_t row_of(const Form& form, int64_t d) {
  int64_t x = d;
  if (form.max > 0) {
    const int64_t middle = form.span / 2;
    const int64_t size = std::abs(d);
    if (size > middle) {
      const float part = std::log(static_cast<float>(size) / static_cast<float>(middle)) /
                         std::log(static_cast<float>(static_cast<double>(form.max - 1) / static_cast<double>(middle)));
      const int64_t bucket = static_cast<int64_t>(std::ceil(part * static_cast<float>(middle - 1))) + middle;
      x = d < 0 ? -bucket : bucket;
    }
  }
  return std::clamp<int64_t>(std::clamp(x, -form.span, form.span) + form.span, 0, 2 * form.span - 1);
}

class Deberta : public VectorTerm {
 public:
  Deberta(const Form& form, const EncodingContext& context, std::vector<float> kr, std::vector<float> qr)
      : form_(form), heads_(context.heads), dim_(context.head_dim), kr_(std::move(kr)), qr_(std::move(qr)) {}
  TermShape shape() const override { return {heads_, dim_}; }
  bool has(Side side) const override { return !(side == Side::kQuery ? kr_ : qr_).empty(); }
  int64_t row(Side side, int64_t d) const override { return row_of(form_, side == Side::kKey && form_.paper ? -d : d); }
  const float* vector(Side side, int head, int64_t row) const override {
    return (side == Side::kQuery ? kr_ : qr_).data() + (row * heads_ + head) * dim_;
  }

  double* vector_gradient(EncodingGradients& weights, Side side, int head, int64_t row) const override {
    const std::vector<float>& table = side == Side::kQuery ? kr_ : qr_;
    return weights.of(side == Side::kQuery ? "kr" : "qr", table.size()).data() + (row * heads_ + head) * dim_;
  }

 private:
  Form form_;
  int heads_, dim_;
  std::vector<float> kr_, qr_;  // [2K][H][D], or empty
};

}  // namespace

const EncodingEntry& encoding_deberta() {
  static const EncodingEntry entry = {
      .info = {.name = "deberta",
               .title = "Disentangled attention",
               .family = "content",
               .formula = "s += scale * (q_m . Kr[delta(m-n)] + k_n . Qr[delta(m-n)]), delta(x) = clip(x + K, 0, 2K - 1)",
               .summary =
                   "Content meets position twice: the query a projected vector of the distance, and the key another one. The "
                   "softmax scale is 1/sqrt(3D) with both terms. v2 and v3 put far distances into logarithmic buckets.",
               .used_by = "DeBERTa (max=0), DeBERTa v2 and v3 (max=512)",
               .source = "He et al. 2020, arXiv:2006.03654",
               .cost = "a product a pair for each term",
               .parameters = {{"span", "K: the tables have 2K rows", 256, 2, 65536, true},
                              {"max", "0: no buckets; else the distance that the logarithmic ones reach", 0, 0, 2147483647,
                               true},
                              {"c2p", "0: without the first term", 1, 0, 1, true},
                              {"p2c", "0: without the second term", 1, 0, 1, true},
                              {"paper", "1: the second term by delta(n-m)", 0, 0, 1, true}},
               .points = {.score = true},
               .shift_invariant = true},
      .shapes = [](const EncodingArguments& arguments, const EncodingContext& context) -> std::vector<EncodingWeight> {
        const std::vector<int64_t> shape = {2 * arguments.whole("span"), context.heads, context.head_dim};
        std::vector<EncodingWeight> list;
        if (arguments["c2p"] != 0) list.push_back({"kr", shape, {}});
        if (arguments["p2c"] != 0) list.push_back({"qr", shape, {}});
        return list;
      },
      .initial = [](const std::string&, double normal) { return 0.3 * normal; },
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables& tables) -> Result<PositionEncoding> {
        const Form form{arguments.whole("span"), arguments.whole("max"), arguments["paper"] != 0};
        if (form.max > 0 && form.max - 1 <= form.span / 2) {
          return fail(ErrorCode::kInvalidArgument,
                      "[encoding] deberta: max: expected 0 or more than span/2 + 1 = {}, but got {}", form.span / 2 + 1,
                      form.max);
        }
        const auto table = [&](const char* name) {
          return arguments[name == std::string_view("kr") ? "c2p" : "p2c"] != 0 ? tables[name] : std::vector<float>();
        };
        PositionEncoding encoding;
        encoding.score = std::make_shared<Deberta>(form, context, table("kr"), table("qr"));
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
