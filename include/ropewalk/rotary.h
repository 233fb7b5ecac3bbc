// A rotary scheme as data: everything that RoPE and its extensions are, without a kernel in sight.
//
// Symbols (used everywhere): D head size, R rotary width (even, R <= D), planes i = 0 .. R/2-1, m and n positions, theta base,
// L0 the length that the frequencies were trained for, L the length in use, s the extension factor.
// Plane i turns by the angle m * inv_freq[i] at position m (Su et al. 2021, arXiv:2104.09864, eq. 15).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ropewalk/api.h"
#include "ropewalk/dtype.h"
#include "ropewalk/error.h"

namespace ropewalk {

// Which dims form plane i, counted from the start of the rotated slice.
enum class Pairing : uint8_t {
  kHalves,       // (i, i + R/2): Hugging Face, GPT-NeoX, GGUF "NEOX"
  kInterleaved,  // (2i, 2i + 1): Meta Llama, GPT-J, RoFormer, GGUF "NORMAL"
};

// The dims of a head that rotate: [begin, begin + count), count = R.
struct Slice {
  int begin = 0;
  int count = 0;
  bool operator==(const Slice&) const = default;
};

// A factor on the query after the rotation, a function of its position m alone.
struct QueryTemperature {
  enum class Form : uint8_t {
    kNone,
    kLlama4,     // 1 + beta ln(1 + floor((m + 1) / length))
    kMinistral,  // 1 + beta ln(1 + floor(m / length))
    kLogN,       // max(1, ln(m + 1) / ln(length))
  };
  Form form = Form::kNone;
  double beta = 0.1;
  int64_t length = 0;
  bool operator==(const QueryTemperature&) const = default;
};
ROPEWALK_API double query_multiplier(const QueryTemperature& temperature, int64_t m) noexcept;

struct RotarySchedule {
  std::vector<double> inv_freq;  // [R/2] radians per position; 0 = the plane stands still
  Pairing pairing = Pairing::kHalves;
  Slice rotated;                  // rotated.count == 2 * inv_freq.size()
  double amplitude = 1;           // multiplies cos and sin, of q and of k
  double softmax_multiplier = 1;  // multiplies the softmax scale (DeepSeek's mscale^2)
  QueryTemperature query_temperature;
  std::vector<uint8_t> axis;  // [R/2] position axis of each plane (mRoPE: t, h, w); empty = one axis
  std::vector<double> decay;  // [R/2] or empty: plane i of q k is multiplied by exp(decay[i] d), d = m - n (xPos)
  double theta = 0;           // the base behind inv_freq, for rules that need it; 0 = not known
  bool operator==(const RotarySchedule&) const = default;
};

// theta^(-2i/R) over the slice. Errors: kInvalidArgument for R odd, zero, negative or > head_dim, theta not finite or <= 0.
ROPEWALK_API Result<RotarySchedule> make_rotary_schedule(double theta, int rotary_dim, int head_dim, Pairing pairing);

// Whose rounding a table reproduces. Kernels know cos and sin, never a profile.
enum class Profile : uint8_t {
  kExact,  // cos and sin within 1 f32 ulp of the true value of m * inv_freq (double as stored), |m| <= 2^31, beside zeros too
  kHf,     // every step rounded to f32: transformers
  kGgml,   // angle as an f32 running product: ggml
  kVllmBf16,  // the exact table rounded once to bf16
};

// cos and sin (times the amplitude) of every plane at each given position, as f32: cos[t * planes + i].
struct RotaryTable {
  int64_t positions = 0;
  int planes = 0;
  std::vector<float> cos, sin;
};

// Positions: any int64 in [-2^31, 2^31]; else kInvalidArgument, naming the position. Cost: about 20 ns an entry (exact).
// With axes, `positions` holds n_axes rows of equal length, one after another.
ROPEWALK_API Result<RotaryTable> make_rotary_table(const RotarySchedule& schedule, std::span<const int64_t> positions,
                                                   Profile profile = Profile::kExact);
// Positions may be real (CAPE, leaky ReRoPE, linear interpolation in position space). Exact profile; |position| <= 2^31.
ROPEWALK_API Result<RotaryTable> make_rotary_table(const RotarySchedule& schedule, std::span<const double> positions);

// A strided view of [tokens][heads][dim], dim contiguous. Strides count elements.
struct HeadsView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t tokens = 0;
  int heads = 0;
  int dim = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};
struct ConstHeadsView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t tokens = 0;
  int heads = 0;
  int dim = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
  ConstHeadsView() = default;
  ConstHeadsView(const HeadsView& v)  // NOLINT(google-explicit-constructor)
      : data(v.data),
        dtype(v.dtype),
        tokens(v.tokens),
        heads(v.heads),
        dim(v.dim),
        token_stride(v.token_stride),
        head_stride(v.head_stride) {}
};
template <class T>
HeadsView heads_view(T* data, int64_t tokens, int heads, int dim) {
  return {data, DTypeOf<T>::value, tokens, heads, dim, int64_t{heads} * dim, dim};
}
template <class T>
ConstHeadsView heads_view(const T* data, int64_t tokens, int heads, int dim) {
  return heads_view(const_cast<T*>(data), tokens, heads, dim);
}

// out = rotate(x): row t of the table is for token t. x and out have equal shape and dtype and may be the same memory, or not
// overlap at all. Dims outside the slice are copied. Arithmetic in f32, one rounding at the end. Thread-safe.
ROPEWALK_API Result<void> rotate(const RotarySchedule& schedule, const RotaryTable& table, ConstHeadsView x, HeadsView out,
                                 int threads = 1);

}  // namespace ropewalk
