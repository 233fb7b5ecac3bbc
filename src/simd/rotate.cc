#include "simd/rotate.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/rotate.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "simd/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::simd::HWY_NAMESPACE {

inline constexpr int kMaxLanes = HWY_MAX_BYTES / sizeof(float);

// n < kMaxLanes elements (the bound keeps g++ from seeing a huge copy).
template <class T>
HWY_INLINE void copy_lanes(T* to, const T* from, int n) {
  for (int j = 0; j < n && j < kMaxLanes; ++j) to[j] = from[j];
}

// One vector of planes: a' = a c - b s, b' = b c + a s.
template <class D, class T>
HWY_INLINE void turn_halves(D d, const T* a, const T* b, T* out_a, T* out_b, const float* cos, const float* sin) {
  const auto va = load_f32(d, a), vb = load_f32(d, b);
  const auto c = hn::LoadU(d, cos), s = hn::LoadU(d, sin);
  store_f32(d, hn::MulSub(va, c, hn::Mul(vb, s)), out_a);
  store_f32(d, hn::MulAdd(vb, c, hn::Mul(va, s)), out_b);
}

template <class D, class T>
HWY_INLINE void halves_tail(D d, const T* a, const T* b, T* out_a, T* out_b, const float* cos, const float* sin, int n) {
  T in[2][kMaxLanes] = {};
  T out[2][kMaxLanes] = {};
  float c[kMaxLanes] = {}, s[kMaxLanes] = {};
  copy_lanes(in[0], a, n);
  copy_lanes(in[1], b, n);
  copy_lanes(c, cos, n);
  copy_lanes(s, sin, n);
  turn_halves(d, in[0], in[1], out[0], out[1], c, s);
  copy_lanes(out_a, out[0], n);
  copy_lanes(out_b, out[1], n);
}

// Vectors of at most kLanes, then narrower ones, and a padded copy for the last planes: head sizes such as 80 have 40 planes.
template <size_t kLanes, class T>
HWY_INLINE void halves(const T* a, const T* b, T* out_a, T* out_b, const float* cos, const float* sin, int n) {
  const hn::CappedTag<float, kLanes> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  int i = 0;
  for (; i + lanes <= n; i += lanes) turn_halves(d, a + i, b + i, out_a + i, out_b + i, cos + i, sin + i);
  if (i >= n) return;
  if constexpr (kLanes > 4) {
    halves<kLanes / 2>(a + i, b + i, out_a + i, out_b + i, cos + i, sin + i, n - i);
  } else {
    halves_tail(d, a + i, b + i, out_a + i, out_b + i, cos + i, sin + i, n - i);
  }
}

#if HWY_TARGET == HWY_SCALAR
// One lane cannot hold a pair.
template <size_t kLanes, class T>
HWY_INLINE void interleaved(const T* x, T* out, const float* cos, const float* sin, int n) {
  const hn::CappedTag<float, 1> d;
  for (int i = 0; i < n; i += 2) turn_halves(d, x + i, x + i + 1, out + i, out + i + 1, cos + i, sin + i + 1);
}
#else
// cos and sin hold each plane's value twice, sin with a minus on the even dim, n = 2 planes:
// y = x c + (its neighbour) s, one shuffle within pairs.
template <class D, class T>
HWY_INLINE void turn_pairs(D d, const T* x, T* out, const float* cos, const float* sin) {
  const auto v = load_f32(d, x);
  store_f32(d, hn::MulAdd(v, hn::LoadU(d, cos), hn::Mul(hn::Reverse2(d, v), hn::LoadU(d, sin))), out);
}

template <size_t kLanes, class T>
HWY_INLINE void interleaved(const T* x, T* out, const float* cos, const float* sin, int n) {
  const hn::CappedTag<float, kLanes> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  int i = 0;
  for (; i + lanes <= n; i += lanes) turn_pairs(d, x + i, out + i, cos + i, sin + i);
  if (i >= n) return;
  if constexpr (kLanes > 4) {
    interleaved<kLanes / 2>(x + i, out + i, cos + i, sin + i, n - i);
  } else {
    T in[kMaxLanes] = {}, result[kMaxLanes] = {};
    float c[kMaxLanes] = {}, s[kMaxLanes] = {};
    copy_lanes(in, x + i, n - i);
    copy_lanes(c, cos + i, n - i);
    copy_lanes(s, sin + i, n - i);
    turn_pairs(d, in, result, c, s);
    copy_lanes(out + i, result, n - i);
  }
}
#endif

// Planes whose expanded cos and sin fit comfortably in L1 beside the heads.
inline constexpr int kChunk = 256;

template <class T>
HWY_INLINE void rotate_interleaved(const RotateArgs& args, const T* x, T* out, const float* cos, const float* sin) {
  alignas(64) float cos2[2 * kChunk], sin2[2 * kChunk];
  for (int first = 0; first < args.planes; first += kChunk) {
    const int planes = std::min(kChunk, args.planes - first);
    for (int i = 0; i < planes; ++i) {
      cos2[2 * i] = cos2[2 * i + 1] = cos[first + i];
      sin2[2 * i] = HWY_TARGET == HWY_SCALAR ? sin[first + i] : -sin[first + i];
      sin2[2 * i + 1] = sin[first + i];
    }
    for (int h = 0; h < args.heads; ++h) {
      const int64_t at = args.begin + 2 * first;
      interleaved<16>(x + h * args.x_head_stride + at, out + h * args.out_head_stride + at, cos2, sin2, 2 * planes);
    }
  }
}

template <class T>
HWY_INLINE void rotate_typed(const RotateArgs& args, int64_t first, int64_t last) {
  const bool copy = args.x != args.out;
  const int begin = args.begin, end = args.begin + 2 * args.planes;
  for (int64_t t = first; t < last; ++t) {
    const T* x = static_cast<const T*>(args.x) + t * args.x_token_stride;
    T* out = static_cast<T*>(args.out) + t * args.out_token_stride;
    const float* cos = args.cos + t * args.planes;
    const float* sin = args.sin + t * args.planes;
    if (args.interleaved) {
      rotate_interleaved(args, x, out, cos, sin);
    } else {
      for (int h = 0; h < args.heads; ++h) {
        const T* a = x + h * args.x_head_stride + begin;
        T* out_a = out + h * args.out_head_stride + begin;
        halves<16>(a, a + args.planes, out_a, out_a + args.planes, cos, sin, args.planes);
      }
    }
    if (!copy) continue;
    for (int h = 0; h < args.heads; ++h) {
      const T* from = x + h * args.x_head_stride;
      T* to = out + h * args.out_head_stride;
      if (begin > 0) std::memcpy(to, from, sizeof(T) * begin);
      if (end < args.dim) std::memcpy(to + end, from + end, sizeof(T) * (args.dim - end));
    }
  }
}

void rotate_f32(const RotateArgs& args, int64_t first, int64_t last) { rotate_typed<float>(args, first, last); }
void rotate_f16(const RotateArgs& args, int64_t first, int64_t last) { rotate_typed<f16_t>(args, first, last); }
void rotate_bf16(const RotateArgs& args, int64_t first, int64_t last) { rotate_typed<bf16_t>(args, first, last); }

}  // namespace ropewalk::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk::simd {
HWY_EXPORT(rotate_f32);
HWY_EXPORT(rotate_f16);
HWY_EXPORT(rotate_bf16);

void rotate_tokens(const RotateArgs& args, int64_t first, int64_t last) noexcept {
  switch (args.dtype) {
    case DType::kF32: return HWY_DYNAMIC_DISPATCH(rotate_f32)(args, first, last);
    case DType::kF16: return HWY_DYNAMIC_DISPATCH(rotate_f16)(args, first, last);
    case DType::kBF16: return HWY_DYNAMIC_DISPATCH(rotate_bf16)(args, first, last);
  }
}

}  // namespace ropewalk::simd
#endif
