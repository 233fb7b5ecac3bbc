// The sizes of a decoder from the keys of a GGUF file.
#pragma once

#include "engine/architecture.h"

namespace ropewalk {

// Fills names, widths, head counts, epsilon, contexts, soft caps and the vocabulary, and makes the layers. A model whose layers
// differ in head count or width is kUnsupported. Errors name file and key.
Result<void> read_gguf_sizes(const GgufFile& file, ModelSpec& spec);

}  // namespace ropewalk
