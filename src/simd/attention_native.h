// The bf16 set with the processor's own dot product, which Debian's Highway does not know.
#pragma once

#include "simd/attention_kernels.h"

namespace ropewalk {

// Null where this build, this processor, or a forced SIMD target has none.
const AttentionKernels* native_bf16_kernels();

}  // namespace ropewalk
