#include "encodings/registry.h"

namespace ropewalk {

const EncodingEntry& encoding_none() {
  static const EncodingEntry entry = {
      .info =
          {.name = "none",
           .title = "No position encoding (NoPE)",
           .family = "absolute",
           .formula = "s = scale * q_m . k_n",
           .summary =
               "Nothing is added. Without a mask the tokens are a bag; behind a causal mask a decoder can count. A baseline, "
               "and the layers of Llama 4 and SmolLM3 that do not rotate.",
           .used_by = "some layers of Llama 4 and SmolLM3",
           .source = "Haviv et al. 2022, arXiv:2203.16634; Kazemnejad et al. 2023, arXiv:2305.19466",
           .cost = "nothing",
           .shift_invariant = true},
      .make = [](const EncodingArguments&, const EncodingContext&, const EncodingTables&) -> Result<PositionEncoding> {
        return PositionEncoding{};
      }};
  return entry;
}

}  // namespace ropewalk
