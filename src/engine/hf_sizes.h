// The sizes and the rotation of a decoder from a Hugging Face config.
#pragma once

#include "engine/architecture.h"
#include "formats/hf_config.h"

namespace ropewalk {

// As read_gguf_sizes, from config.json: the activation, soft caps, attention scale and notes too.
// Errors: kUnsupported naming the key for what this engine does not compute (another activation, bidirectional attention).
Result<void> read_hf_sizes(const HfConfig& config, ModelSpec& spec);

// The position scheme of every layer, windows included, and the contexts. Errors: kUnsupported naming the rope type or the
// layer type that has no rule here.
Result<void> set_hf_positions(const HfConfig& config, ModelSpec& spec);

}  // namespace ropewalk
