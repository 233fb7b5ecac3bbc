// Which instruction sets this build holds and which of them this processor runs.
#pragma once

#include <string>
#include <vector>

namespace ropewalk {

// Names as Highway gives them ("AVX3", "AVX2", "SSE4", ...), best first. AVX3 is AVX-512 F, BW, CD, DQ and VL.
std::vector<std::string> simd_targets_compiled();
std::vector<std::string> simd_targets_supported();  // compiled, and this processor runs them
std::string simd_target_in_use();                   // the first of the supported ones

// The processor and the operating system offer AVX512_BF16 (vdpbf16ps).
bool has_bf16_dot();

// The processor has tiles for bf16 products (AMX: tdpbf16ps) and the operating system lets this process use them: it is asked
// on the first call.
bool has_amx_bf16();

// Products in bf16 are faster than in f32 here. vdpbf16ps alone is not a reason: on an Intel processor with AMX it runs
// at half the rate of f32 (`ropewalk bench peak`). On AMD's it counts as one (docs/design/0004).
bool bf16_pays();

std::string highway_version();  // "1.0.3"

}  // namespace ropewalk
