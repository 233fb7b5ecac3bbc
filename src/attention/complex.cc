#include <vector>

#include "attention/inputs.h"
#include "base/fail.h"
#include "ropewalk/attention.h"

namespace ropewalk {
namespace {

// Rows [tokens][heads][dim] as f32, every number z as i z = -Im + i Re.
Result<std::vector<float>> times_i(const ConstHeadsView& x, Pairing pairing) {
  if (x.dtype != DType::kF32)
    return fail(ErrorCode::kInvalidArgument, "[complex_attention] q: expected f32, but got {}", to_string(x.dtype));
  std::vector<float> out(static_cast<size_t>(x.tokens * x.heads * x.dim));
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int h = 0; h < x.heads; ++h) {
      const float* from = static_cast<const float*>(x.data) + t * x.token_stride + h * x.head_stride;
      float* to = out.data() + (t * x.heads + h) * x.dim;
      for (int j = 0; j < x.dim / 2; ++j) {
        const int re = pairing == Pairing::kHalves ? j : 2 * j;
        const int im = pairing == Pairing::kHalves ? x.dim / 2 + j : 2 * j + 1;
        // Im <q, k> = sum (qi kr - qr ki): the real product of (qi, -qr) with k.
        to[re] = from[im];
        to[im] = -from[re];
      }
    }
  }
  return out;
}

}  // namespace

Result<void> complex_attention_split(const AttentionInputs& inputs, const AttentionOptions& options, Pairing pairing,
                                     HeadsView out) {
  ROPEWALK_TRY(const AttentionShape shape, check_attention("complex_attention", inputs, options, out));
  if (shape.dim % 2 != 0 || shape.value_dim % 2 != 0) {
    return fail(ErrorCode::kInvalidArgument, "[complex_attention] expected even head sizes, but got {} and {}", shape.dim,
                shape.value_dim);
  }
  if (inputs.rotary != nullptr || inputs.pairs != nullptr || inputs.score != nullptr || inputs.value != nullptr) {
    return fail(ErrorCode::kInvalidArgument, "[complex_attention] expected neither rotation nor terms, but got some");
  }
  if (out.dtype != DType::kF32)
    return fail(ErrorCode::kInvalidArgument, "[complex_attention] out: expected f32, but got {}", to_string(out.dtype));
  ROPEWALK_TRY(const std::vector<float> turned, times_i(inputs.q, pairing));
  const auto size = static_cast<size_t>(shape.queries * shape.heads * shape.value_dim);
  std::vector<float> real(size), imaginary(size);
  ROPEWALK_CHECK_OK(attention(inputs, options, heads_view(real.data(), shape.queries, shape.heads, shape.value_dim)));
  AttentionInputs second = inputs;
  second.q = heads_view(turned.data(), shape.queries, shape.heads, shape.dim);
  AttentionOptions scaled = options;
  scaled.scale = shape.scale;
  ROPEWALK_CHECK_OK(attention(second, scaled, heads_view(imaginary.data(), shape.queries, shape.heads, shape.value_dim)));
  const int numbers = shape.value_dim / 2;
  for (int64_t t = 0; t < shape.queries; ++t) {
    for (int h = 0; h < shape.heads; ++h) {
      const size_t at = static_cast<size_t>((t * shape.heads + h) * shape.value_dim);
      float* to = static_cast<float*>(out.data) + t * out.token_stride + h * out.head_stride;
      for (int j = 0; j < numbers; ++j) {
        const int re = pairing == Pairing::kHalves ? j : 2 * j;
        const int im = pairing == Pairing::kHalves ? numbers + j : 2 * j + 1;
        const auto r = at + static_cast<size_t>(re), i = at + static_cast<size_t>(im);
        to[re] = real[r] - imaginary[i];
        to[im] = real[i] + imaginary[r];
      }
    }
  }
  return {};
}

}  // namespace ropewalk
