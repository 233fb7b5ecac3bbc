// Llama (and what shares its blocks: SmolLM2, TinyLlama, Mistral without a window).
#include "base/fail.h"
#include "engine/architecture.h"
#include "engine/decoder_tensors.h"
#include "engine/gguf_sizes.h"
#include "engine/hf_sizes.h"
#include "engine/rope_scaling.h"

namespace ropewalk {

Result<ModelSpec> fill_llama(const ModelSource& source) {
  ModelSpec spec;
  spec.architecture = "llama";
  if (source.gguf != nullptr) {
    ROPEWALK_CHECK_OK(read_gguf_sizes(*source.gguf, spec));
    // The converter permutes the rows of Wq and Wk of this architecture, so that planes are pairs of neighbours.
    ROPEWALK_TRY(const RopeScaling rope, read_gguf_rope(*source.gguf, "rope.freq_base", Pairing::kInterleaved, spec));
    set_contexts(rope, spec.context_claimed, spec);
    LayerPosition position;
    ROPEWALK_CHECK_OK(set_rotation(rope, spec.head_dim, spec.context_claimed, source.path(), position));
    for (LayerSpec& layer : spec.layers) layer.position = position;
  } else {
    ROPEWALK_CHECK_OK(read_hf_sizes(*source.config, spec));
    ROPEWALK_CHECK_OK(set_hf_positions(*source.config, spec));
  }
  ROPEWALK_CHECK_OK(bind_decoder_tensors(source, {}, spec));
  return spec;
}

}  // namespace ropewalk
