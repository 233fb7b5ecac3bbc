// Expansion of stored elements to f32: ggml's quantized blocks, f16 and bf16. Layouts are drawn in dequant.cc.
//
// Every function writes `blocks` blocks (elements for f16 and bf16), densely, and reads exactly as many. Input needs no
// alignment. Results are exactly those of ggml's formulas in f32: scales have 11 bits, their multipliers and the quants at most
// 13 together, so every product is exact and a result is rounded at most once, whatever the order and whether or not an FMA is
// used. Thread-safe. Cost: bound by the memory that is written, 10 to 20 GB/s from cache.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ropewalk::simd {

#define ROPEWALK_DEQUANT_FORMATS(X) \
  X(f16) X(bf16) X(q4_0) X(q4_1) X(q5_0) X(q5_1) X(q8_0) X(q2_k) X(q3_k) X(q4_k) X(q5_k) X(q6_k) X(iq4_nl) X(iq4_xs)

#define ROPEWALK_DECLARE_DEQUANT(format) void dequant_##format(const std::byte* data, int64_t blocks, float* out) noexcept;
ROPEWALK_DEQUANT_FORMATS(ROPEWALK_DECLARE_DEQUANT)
#undef ROPEWALK_DECLARE_DEQUANT

}  // namespace ropewalk::simd
