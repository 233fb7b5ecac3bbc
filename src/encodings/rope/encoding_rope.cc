// RoPE in the registry: the plain schedule. The rules that change its frequencies are settings (settings.h).
#include <algorithm>

#include "base/fail.h"
#include "encodings/registry.h"

namespace ropewalk {

const EncodingEntry& encoding_rope() {
  static const EncodingEntry entry = {
      .info =
          {.name = "rope",
           .title = "Rotary position embedding",
           .family = "rotary",
           .formula = "plane i of q and k turns by m theta^(-2i/R); s depends on q, k and m - n",
           .summary =
               "Queries and keys turn by their position, plane by plane at falling speeds, so that their product depends on "
               "the distance. No weights, no cost in attention; longer contexts by the rules listed as settings.",
           .used_by = "Llama, Qwen, Mistral, Gemma, GPT-NeoX, GPT-J, Phi, DeepSeek",
           .source = "Su et al. 2021, arXiv:2104.09864",
           .cost = "a rotation of q and k, fused with packing",
           .parameters = {{"theta", "base", 10000, 1, 1e12, false},
                          {"fraction", "share of the head that rotates", 1, 1e-6, 1, false},
                          {"proportional", "share of the planes that rotate, exponents over the whole head (p-RoPE)", 1, 1e-6,
                           1, false},
                          {"interleaved", "1: planes (2i, 2i+1); 0: planes (i, i + R/2)", 0, 0, 1, true}},
           .points = {.rotation = true},
           .shift_invariant = true},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        const auto width = static_cast<int>(context.head_dim * arguments["fraction"]);
        const Pairing pairing = arguments["interleaved"] != 0 ? Pairing::kInterleaved : Pairing::kHalves;
        ROPEWALK_TRY(RotarySchedule schedule, make_rotary_schedule(arguments["theta"], width, context.head_dim, pairing));
        const auto turning = static_cast<size_t>(arguments["proportional"] * width / 2);
        std::fill(schedule.inv_freq.begin() + static_cast<int64_t>(turning), schedule.inv_freq.end(), 0.0);
        PositionEncoding encoding;
        encoding.rotary = std::move(schedule);
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
