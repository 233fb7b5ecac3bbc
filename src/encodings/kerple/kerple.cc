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

struct Logarithmic {
  static constexpr const char* kName = "kerple_log";
  static constexpr double kLargestR2 = 1e6;
  static double bias(const Head& head, double distance) { return -head.r1 * std::log1p(head.r2 * distance); }
  static Head gradient(const Head& head, double distance) {
    return {-std::log1p(head.r2 * distance), -head.r1 * distance / (1 + head.r2 * distance)};
  }
};
struct Power {
  static constexpr const char* kName = "kerple_power";
  static constexpr double kLargestR2 = 2;
  static double bias(const Head& head, double distance) { return -head.r1 * std::pow(distance, head.r2); }
  static Head gradient(const Head& head, double distance) {
    const double power = std::pow(distance, head.r2);
    return {-power, distance == 0 ? 0 : -head.r1 * power * std::log(distance)};
  }
};

template <class Kernel>
class Kerple : public DistanceTerm {
 public:
  explicit Kerple(std::vector<Head> heads) : heads_(std::move(heads)) {}
  TermShape shape() const override { return {static_cast<int>(heads_.size()), 0}; }
  void fill(int head, int, int64_t first, std::span<double> out) const override {
    const Head& h = heads_[static_cast<size_t>(head)];
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = Kernel::bias(h, std::abs(static_cast<double>(first + static_cast<int64_t>(i))));
  }

  void backward(const ScoreTile& row, std::span<const double>, std::span<double> gradient, const ContentGradient&,
                EncodingGradients& weights) const override {
    const auto h = static_cast<size_t>(row.head);
    for (size_t c = 0; c < gradient.size(); ++c) {
      const Head by = Kernel::gradient(heads_[h], std::abs(static_cast<double>(row.q_pos[0] - row.k_pos[c])));
      weights.of("r1", heads_.size())[h] += gradient[c] * by.r1;
      weights.of("r2", heads_.size())[h] += gradient[c] * by.r2;
    }
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

template <class Kernel>
Result<PositionEncoding> make(const EncodingArguments&, const EncodingContext& context, const EncodingTables& tables) {
  ROPEWALK_TRY(std::vector<Head> heads, heads_of(Kernel::kName, context, tables, Kernel::kLargestR2));
  PositionEncoding encoding;
  encoding.score = std::make_shared<Kerple<Kernel>>(std::move(heads));
  return encoding;
}

template <class Kernel>
EncodingEntry entry_of(EncodingInfo info) {
  info.family = "relative";
  info.cost = "a table of H by T + S floats a call";
  info.points = {.score = true};
  info.shift_invariant = true;
  // Positive, spread over heads by the normal draw.
  const auto initial = [](const std::string&, double normal) { return std::clamp(std::exp2(normal), 1.0 / 64, 2.0); };
  return {.info = std::move(info), .shapes = shapes, .initial = initial, .make = make<Kernel>};
}

}  // namespace

const EncodingEntry& encoding_kerple_log() {
  static const EncodingEntry entry = entry_of<Logarithmic>(
      {.name = "kerple_log",
       .title = "KERPLE, logarithmic kernel",
       .formula = "b_h(d) = -r1_h ln(1 + r2_h |d|), r1 > 0, r2 > 0",
       .summary =
           "A learned penalty that grows like a logarithm: far keys keep some weight, so it reads beyond the trained length "
           "better than a straight line.",
       .source = "Chi et al. 2022, arXiv:2205.09921, eq. 5"});
  return entry;
}

const EncodingEntry& encoding_kerple_power() {
  static const EncodingEntry entry =
      entry_of<Power>({.name = "kerple_power",
                       .title = "KERPLE, power kernel",
                       .formula = "b_h(d) = -r1_h |d|^(r2_h), r1 > 0, 0 < r2 <= 2",
                       .summary = "ALiBi with a learned slope and a learned exponent: r2 = 1 is ALiBi.",
                       .source = "Chi et al. 2022, arXiv:2205.09921, eq. 4"});
  return entry;
}

}  // namespace ropewalk
