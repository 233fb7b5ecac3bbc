// The bf16 sets with the processor's own instructions, which Debian's Highway does not know.
#pragma once

#include <vector>

#include "simd/attention_kernels.h"

namespace ropewalk {

// The fastest first; empty where this build, this processor, or a forced SIMD target has none.
std::vector<const AttentionKernels*> native_bf16_kernels();

}  // namespace ropewalk
