// xPos (Sun et al. 2022, arXiv:2212.10554, section 3.2): RoPE whose planes also fade with the distance.
#include <cmath>

#include "base/fail.h"
#include "encodings/registry.h"

namespace ropewalk {

const EncodingEntry& encoding_xpos() {
  static const EncodingEntry entry = {
      .info =
          {.name = "xpos",
           .title = "Extrapolatable RoPE (xPos)",
           .family = "rotary",
           .formula = "plane i of q k turns by d f_i and is multiplied by z_i^(d/base), z_i = (2i/R + gamma)/(1 + gamma)",
           .summary =
               "RoPE with a decay of each plane, stronger where it turns faster, so that far scores do not oscillate. Formed "
               "relative to each tile of keys: the two factors alone would over- and underflow at long range. Causal: for keys "
               "ahead the factor grows.",
           .used_by = "LeX, RetNet's ancestor; TorchScale",
           .source = "Sun et al. 2022, arXiv:2212.10554",
           .cost = "a rotation of q for every tile of keys",
           .parameters = {{"theta", "base of the rotation", 10000, 1, 1e12, false},
                          {"base", "positions over which the factor is z_i", 512, 8, 1e9, false},
                          {"gamma", "how far the slowest decay is from the fastest", 0.4, 0.01, 1e6, false},
                          {"interleaved", "1: planes (2i, 2i+1); 0: planes (i, i + R/2)", 1, 0, 1, true}},
           .points = {.rotation = true},
           .shift_invariant = true},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        const Pairing pairing = arguments["interleaved"] != 0 ? Pairing::kInterleaved : Pairing::kHalves;
        ROPEWALK_TRY(RotarySchedule schedule,
                     make_rotary_schedule(arguments["theta"], context.head_dim, context.head_dim, pairing));
        const double gamma = arguments["gamma"];
        const auto planes = static_cast<double>(schedule.inv_freq.size());
        for (double i = 0; i < planes; ++i) {
          schedule.decay.push_back(std::log((i / planes + gamma) / (1 + gamma)) / arguments["base"]);
        }
        PositionEncoding encoding;
        encoding.rotary = std::move(schedule);
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
