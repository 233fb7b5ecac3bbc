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
  Alibi(std::vector<double> slopes, double scale, bool learned) : slopes_(std::move(slopes)), scale_(scale), learned_(learned) {
    for (double& slope : slopes_) slope *= scale;
  }
  TermShape shape() const override { return {static_cast<int>(slopes_.size()), 0}; }
  void fill(int head, int, int64_t first, std::span<double> out) const override {
    const double slope = slopes_[static_cast<size_t>(head)];
    for (size_t i = 0; i < out.size(); ++i) out[i] = -slope * std::abs(static_cast<double>(first + static_cast<int64_t>(i)));
  }

  void backward(const ScoreTile& row, std::span<const double>, std::span<double> gradient, const ContentGradient&,
                EncodingGradients& weights) const override {
    if (!learned_) return;
    double& slope = weights.of("slopes", slopes_.size())[static_cast<size_t>(row.head)];
    for (size_t c = 0; c < gradient.size(); ++c)
      slope -= scale_ * gradient[c] * std::abs(static_cast<double>(row.q_pos[0] - row.k_pos[c]));
  }

 private:
  std::vector<double> slopes_;
  double scale_;
  bool learned_;
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
                              {"scale", "factor on all slopes: L0/L interpolates", 1, 1e-9, 1e9, false},
                              {"learned", "1: the slopes are weights", 0, 0, 1, true}},
               .points = {.score = true},
               .shift_invariant = true},
      .shapes = [](const EncodingArguments& arguments, const EncodingContext& context) -> std::vector<EncodingWeight> {
        if (arguments["learned"] == 0) return {};
        return {{"slopes", {context.heads}, {}}};
      },
      .initial = [](const std::string&, double normal) { return 0.1 * std::abs(normal); },
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables& tables) -> Result<PositionEncoding> {
        const bool learned = arguments["learned"] != 0;
        std::vector<double> list;
        if (learned) list.assign(tables["slopes"].begin(), tables["slopes"].end());
        if (!learned) list = slopes(context.heads, arguments["max"]);
        PositionEncoding encoding;
        encoding.score = std::make_shared<Alibi>(std::move(list), arguments["scale"], learned);
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
