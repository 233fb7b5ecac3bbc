// What a model's file says about its rotation, whatever the format, and the schedules that follow from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "encodings/rope/rules.h"
#include "engine/model_spec.h"
#include "formats/gguf.h"
#include "ropewalk/error.h"

namespace ropewalk {

// The rotation of one kind of layer. Numbers are as read; `rule` is one of "", "linear", "yarn", "llama3", "longrope",
// "dynamic".
struct RopeScaling {
  double theta = 10000;
  int rotary_dim = 0;
  Pairing pairing = Pairing::kHalves;
  std::string rule;
  std::optional<double> factor;
  int64_t original = 0;  // 0 = not given
  YarnParams yarn;       // its factor is `factor`
  double amplitude = 1;  // GGUF's attn_factor: multiplies
  Llama3Params llama3;
  LongRopeParams longrope;
  std::vector<double> divisors;  // GGUF's rope_freqs.weight: applied to the bare frequencies; empty = none
};

// Fills rotary, rotary_plain and rotary_long of `layer`. `length` = the context that the file states (for rules that need a
// length which the file does not give). Errors: kCorrupt / kInvalidArgument naming `where` (the file) and the parameter.
Result<void> set_rotation(const RopeScaling& scaling, int head_dim, int64_t length, const std::string& where,
                          LayerPosition& layer);

// L0 and the original length, by the rule: YaRN and Llama 3 files state the original and the factor.
void set_contexts(const RopeScaling& scaling, int64_t stated, ModelSpec& spec);

// "{architecture}.rope.*" keys and the rope tensors of a GGUF file. Unknown rules and keys whose effect would be lost are
// kUnsupported or become a note in `spec`. `base_key`, e.g. "rope.freq_base".
Result<RopeScaling> read_gguf_rope(const GgufFile& file, const std::string& base_key, Pairing pairing, ModelSpec& spec);

}  // namespace ropewalk
