// Finds the tensors of a decoder by their names in GGUF and in Hugging Face files, and checks every shape.
#pragma once

#include "engine/architecture.h"

namespace ropewalk {

struct DecoderTraits {
  bool qkv_bias = false;    // required when true; without it the biases of a layer are taken where a file has them
  bool qk_norm = false;     // RMS norms on the heads of q and k
  bool post_norms = false;  // norms on the outputs of attention and feed-forward (Gemma)
};

// Fills every StoredTensor pointer of `spec`, whose sizes are set and whose layers exist. The output matrix is the embedding
// where the file has none. Errors: kNotFound / kCorrupt naming file, tensor, expected and found shape; kUnsupported for a
// tensor of a layer that nothing here would read (a bias on the output product, a layer past the last): silently left out, it
// would make the result wrong.
Result<void> bind_decoder_tensors(const ModelSource& source, const DecoderTraits& traits, ModelSpec& spec);

}  // namespace ropewalk
