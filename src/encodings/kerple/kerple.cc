// KERPLE's two kernels (Chi et al. 2022, arXiv:2205.09921, equations 4 and 5): learned, a pair of numbers for each head.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/fail.h"
#include "encodings/registry.h"

namespace ropewalk {
namespace {

struct Head {
  double r1, r2;
};

class Logarithmic : public DistanceTerm {
 public:
  explicit Logarithmic(std::vector<Head> heads) : heads_(std::move(heads)) {}
  TermShape shape() const override { return {static_cast<int>(heads_.size()), 0}; }
  void fill(int head, int, int64_t first, std::span<double> out) const override {
    const auto [r1, r2] = heads_[static_cast<size_t>(head)];
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = -r1 * std::log1p(r2 * std::abs(static_cast<double>(first + static_cast<int64_t>(i))));
  }

 private:
  std::vector<Head> heads_;
};

class Power : public DistanceTerm {
 public:
  explicit Power(std::vector<Head> heads) : heads_(std::move(heads)) {}
  TermShape shape() const override { return {static_cast<int>(heads_.size()), 0}; }
  void fill(int head, int, int64_t first, std::span<double> out) const override {
    const auto [r1, r2] = heads_[static_cast<size_t>(head)];
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = -r1 * std::pow(std::abs(static_cast<double>(first + static_cast<int64_t>(i))), r2);
  }

 private:
  std::vector<Head> heads_;
};

std::vector<EncodingWeight> shapes(const EncodingArguments&, const EncodingContext& context) {
  return {{"r1", {context.heads}, {}}, {"r2", {context.heads}, {}}};
}

Result<std::vector<Head>> heads_of(const char* name, const EncodingContext& context, const EncodingTables& tables,
                                   double largest_r2) {
  std::vector<Head> heads;
  for (size_t h = 0; h < static_cast<size_t>(context.heads); ++h) {
    const Head head{static_cast<double>(tables["r1"][h]), static_cast<double>(tables["r2"][h])};
    if (!(head.r1 > 0))
      return fail(ErrorCode::kInvalidArgument, "[encoding] {}: r1 of head {}: expected a number > 0, but got {}", name, h,
                  head.r1);
    if (!(head.r2 > 0 && head.r2 <= largest_r2)) {
      return fail(ErrorCode::kInvalidArgument, "[encoding] {}: r2 of head {}: expected a number > 0 and <= {}, but got {}",
                  name, h, largest_r2, head.r2);
    }
    heads.push_back(head);
  }
  return heads;
}

// Positive, spread over heads by the normal draw.
double start_of(const std::string&, int64_t, double normal) { return std::clamp(std::exp2(normal), 1.0 / 64, 2.0); }

}  // namespace

const EncodingEntry& encoding_kerple_log() {
  static const EncodingEntry entry = {
      .info = {.name = "kerple_log",
               .title = "KERPLE, logarithmic kernel",
               .family = "relative",
               .formula = "b_h(d) = -r1_h ln(1 + r2_h |d|), r1 > 0, r2 > 0",
               .summary =
                   "A learned penalty that grows like a logarithm: far keys keep some weight, so it reads beyond the trained "
                   "length better than a straight line.",
               .source = "Chi et al. 2022, arXiv:2205.09921, eq. 5",
               .cost = "a table of H by T + S floats a call",
               .points = {.score = true},
               .shift_invariant = true},
      .shapes = shapes,
      .initial = start_of,
      .make = [](const EncodingArguments&, const EncodingContext& context,
                 const EncodingTables& tables) -> Result<PositionEncoding> {
        ROPEWALK_TRY(std::vector<Head> heads, heads_of("kerple_log", context, tables, 1e6));
        PositionEncoding encoding;
        encoding.score = std::make_shared<Logarithmic>(std::move(heads));
        return encoding;
      }};
  return entry;
}

const EncodingEntry& encoding_kerple_power() {
  static const EncodingEntry entry = {.info = {.name = "kerple_power",
                                               .title = "KERPLE, power kernel",
                                               .family = "relative",
                                               .formula = "b_h(d) = -r1_h |d|^(r2_h), r1 > 0, 0 < r2 <= 2",
                                               .summary = "ALiBi with a learned slope and a learned exponent: r2 = 1 is ALiBi.",
                                               .source = "Chi et al. 2022, arXiv:2205.09921, eq. 4",
                                               .cost = "a table of H by T + S floats a call",
                                               .points = {.score = true},
                                               .shift_invariant = true},
                                      .shapes = shapes,
                                      .initial = start_of,
                                      .make = [](const EncodingArguments&, const EncodingContext& context,
                                                 const EncodingTables& tables) -> Result<PositionEncoding> {
                                        ROPEWALK_TRY(std::vector<Head> heads, heads_of("kerple_power", context, tables, 2));
                                        PositionEncoding encoding;
                                        encoding.score = std::make_shared<Power>(std::move(heads));
                                        return encoding;
                                      }};
  return entry;
}

}  // namespace ropewalk
