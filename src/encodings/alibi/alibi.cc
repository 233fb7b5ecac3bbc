// ALiBi: b_h(d) = -slope_h |d| (Press et al. 2021, arXiv:2108.12409, section 3).
#include <cmath>
#include <vector>

#include "encodings/registry.h"

namespace ropewalk {
namespace {

// H a power of two: 2^(-max (h + 1) / H). Otherwise the slopes of the power below, then every second slope of the power above.
std::vector<double> slopes(int heads, double max) {
  int power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> list;
  list.reserve(static_cast<size_t>(heads));
  for (int h = 0; h < power; ++h) list.push_back(std::exp2(-max * (h + 1) / power));
  for (int h = 0; static_cast<int>(list.size()) < heads; h += 2) list.push_back(std::exp2(-max * (h + 1) / (2 * power)));
  return list;
}

class Alibi : public DistanceTerm {
 public:
  explicit Alibi(std::vector<double> slopes) : slopes_(std::move(slopes)) {}
  TermShape shape() const override { return {static_cast<int>(slopes_.size()), 0}; }
  void fill(int head, int, int64_t first, std::span<double> out) const override {
    const double slope = slopes_[static_cast<size_t>(head)];
    for (size_t i = 0; i < out.size(); ++i) out[i] = -slope * std::abs(static_cast<double>(first + static_cast<int64_t>(i)));
  }

 private:
  std::vector<double> slopes_;
};

}  // namespace

const EncodingEntry& encoding_alibi() {
  static const EncodingEntry entry = {
      .info = {.name = "alibi",
               .title = "Attention with linear biases",
               .family = "relative",
               .formula = "b_h(d) = -slope_h |d| * (L0/L if interpolated), slope_h = 2^(-max (h+1)/H)",
               .summary =
                   "A penalty that grows with the distance, steeper in some heads than in others. Nothing is learned; it reads "
                   "beyond the trained length without help, by looking mostly near.",
               .used_by = "BLOOM, MPT, Falcon-RW, Baichuan 13B",
               .source = "Press et al. 2021, arXiv:2108.12409",
               .cost = "a table of H by T + S floats a call",
               .parameters = {{"max", "exponent of the smallest slope (MPT: alibi_bias_max)", 8, 1e-3, 1e3, false},
                              {"scale", "factor on all slopes: L0/L interpolates", 1, 1e-9, 1e9, false}},
               .points = {.score = true},
               .shift_invariant = true},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        std::vector<double> list = slopes(context.heads, arguments["max"]);
        for (double& slope : list) slope *= arguments["scale"];
        PositionEncoding encoding;
        encoding.score = std::make_shared<Alibi>(std::move(list));
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
