// Qwen2 and Qwen2.5: Llama with biases on q, k and v; tied and untied output.
#include "base/fail.h"
#include "engine/architecture.h"
#include "engine/decoder_tensors.h"
#include "engine/gguf_sizes.h"
#include "engine/hf_sizes.h"
#include "engine/rope_scaling.h"

namespace ropewalk {

Result<ModelSpec> fill_qwen2(const ModelSource& source) {
  ModelSpec spec;
  spec.architecture = "qwen2";
  if (source.gguf != nullptr) {
    ROPEWALK_CHECK_OK(read_gguf_sizes(*source.gguf, spec));
    ROPEWALK_TRY(const RopeScaling rope, read_gguf_rope(*source.gguf, "rope.freq_base", Pairing::kHalves, spec));
    set_contexts(rope, spec.context_claimed, spec);
    LayerPosition position;
    ROPEWALK_CHECK_OK(set_rotation(rope, spec.head_dim, spec.context_claimed, source.path(), position));
    for (LayerSpec& layer : spec.layers) layer.position = position;
  } else {
    ROPEWALK_CHECK_OK(read_hf_sizes(*source.config, spec));
    ROPEWALK_CHECK_OK(set_hf_positions(*source.config, spec));
  }
  ROPEWALK_CHECK_OK(bind_decoder_tensors(source, {.qkv_bias = true}, spec));
  return spec;
}

}  // namespace ropewalk
