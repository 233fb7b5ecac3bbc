// RoPE over several axes of position: mRoPE (Wang et al. 2024, arXiv:2409.12191, section 2.1) in both of its orders, and 2D.
#include "base/fail.h"
#include "encodings/registry.h"
#include "ropewalk/axes.h"

namespace ropewalk {

const EncodingEntry& encoding_mrope() {
  static const EncodingEntry entry = {
      .info = {.name = "mrope",
               .title = "RoPE over time, height and width (mRoPE)",
               .family = "rotary",
               .formula =
                   "plane i turns by p_a(i) theta^(-2i/R), a(i) its axis: sections of planes, or in turns (interleaved axes)",
               .summary =
                   "Each plane turns by one of three positions. A text token has the same on all, and then this is plain RoPE. "
                   "Sections that are not given are 1/4, 3/8 and 3/8 of the planes, as in Qwen2-VL's [16, 24, 24].",
               .used_by = "Qwen2-VL, Qwen2.5-VL (sections); Qwen3-VL (turns=1)",
               .source = "Wang et al. 2024, arXiv:2409.12191",
               .cost = "a rotation of q and k, fused with packing",
               .parameters = {{"theta", "base", 10000, 1, 1e12, false},
                              {"time", "planes of the first axis; 0, 0, 0: 1/4, 3/8, 3/8", 0, 0, 256, true},
                              {"height", "planes of the second", 0, 0, 256, true},
                              {"width", "planes of the third", 0, 0, 256, true},
                              {"turns", "1: the axes take planes in turns; 0: one section after another", 0, 0, 1, true}},
               .points = {.rotation = true},
               .shift_invariant = true},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        ROPEWALK_TRY(RotarySchedule schedule,
                     make_rotary_schedule(arguments["theta"], context.head_dim, context.head_dim, Pairing::kHalves));
        const auto planes = static_cast<int>(schedule.inv_freq.size());
        std::vector<int> sections;
        for (const char* name : {"time", "height", "width"}) sections.push_back(static_cast<int>(arguments.whole(name)));
        if (sections == std::vector<int>{0, 0, 0}) {
          const int side = planes * 3 / 8;
          sections = {planes - 2 * side, side, side};
        }
        auto axes = axis_of_planes(sections, planes, arguments["turns"] != 0);
        if (!axes) return Error(axes.error().code(), fmt::format("[encoding] mrope: {}", axes.error().message()));
        schedule.axis = *std::move(axes);
        PositionEncoding encoding;
        encoding.rotary = std::move(schedule);
        return encoding;
      }};
  return entry;
}

const EncodingEntry& encoding_rope_2d() {
  static const EncodingEntry entry = {
      .info =
          {.name = "rope_2d",
           .title = "RoPE over rows and columns",
           .family = "rotary",
           .formula = "the first half of the planes turns by the row, the rest by the column; frequencies shared out in turns, "
                      "or the same for both",
           .summary =
               "For patches of images. alternate = 1 gives the row the frequencies f_0, f_2, ... and the column f_1, f_3, ..., "
               "f_i = theta^(-2i/D); 0 gives both theta^(-4i/D).",
           .used_by = "Pixtral (alternate=1); Qwen2-VL's vision tower (alternate=0)",
           .source = "Agrawal et al. 2024, arXiv:2410.07073; Wang et al. 2024, arXiv:2409.12191",
           .cost = "a rotation of q and k, fused with packing",
           .parameters = {{"theta", "base", 10000, 1, 1e12, false},
                          {"alternate", "1: frequencies in turns; 0: the same for both", 1, 0, 1, true}},
           .points = {.rotation = true},
           .shift_invariant = true},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        PositionEncoding encoding;
        ROPEWALK_TRY(encoding.rotary, make_rotary_2d(arguments["theta"], context.head_dim, arguments["alternate"] != 0));
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
