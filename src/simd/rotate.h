// The rotation kernel: turns the planes of every head of every token by the cos and sin of the token's table row.
//
//   halves       y[i]  = x[i] c - x[i + P] s     y[i + P]   = x[i + P] c + x[i] s       P planes, i in [0, P)
//   interleaved  y[2i] = x[2i] c - x[2i + 1] s   y[2i + 1]  = x[2i + 1] c + x[2i] s
//
// Both pairings round alike: permuted weights with the one give the bits of the other.
#pragma once

#include <cstdint>

#include "ropewalk/dtype.h"

namespace ropewalk::simd {

struct RotateArgs {
  const void* x = nullptr;    // [tokens][heads][dim], strides in elements
  void* out = nullptr;        // the same memory with the same strides, or no overlap
  DType dtype = DType::kF32;  // of both
  int64_t x_token_stride = 0, x_head_stride = 0;
  int64_t out_token_stride = 0, out_head_stride = 0;
  int heads = 0;
  int dim = 0;
  int begin = 0;  // the planes' dims are [begin, begin + 2 planes); the others are copied when out != x
  int planes = 0;
  bool interleaved = false;
  const float* cos = nullptr;  // [tokens][planes]
  const float* sin = nullptr;
};

// The tokens [first, last). Arithmetic in f32, one rounding at the end. Reads and writes exactly the heads' dims.
void rotate_tokens(const RotateArgs& args, int64_t first, int64_t last) noexcept;

}  // namespace ropewalk::simd
