#include "simd/rotate.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/rotate.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "simd/fetch_ahead.h"
#include "simd/half-inl.h"
#include "simd/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::simd::HWY_NAMESPACE {

inline constexpr int kMaxLanes = HWY_MAX_BYTES / sizeof(float);
// Planes whose expanded cos and sin fit comfortably in L1 beside the heads.
inline constexpr int kChunk = 256;

// n < 2 kMaxLanes elements (the bound keeps g++ from seeing a huge copy).
template <class T>
HWY_INLINE void copy_lanes(T* to, const T* from, int n) {
  for (int j = 0; j < n && j < 2 * kMaxLanes; ++j) to[j] = from[j];
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

#if HWY_TARGET != HWY_SCALAR
// bf16, two elements to a 32-bit lane: the lower one is a shift away from its f32, the upper one a mask. `low` and `high` go
// back by one rounding in 16-bit lanes. With t their upper halves and r their lower ones, t is rounded up when r is above
// 0x8000, or equal to it and t odd: when r | (t & 1) > 0x8000. Bit 15 of the average (that + 0x7ffe + 1) / 2 says so. All in
// all half the operations of two conversions. A NaN that comes from x has r = 0 and stays one; NaN in the table is made so
// before (fill_bf16_row).
template <class D, class DU = hn::RebindToUnsigned<D>>
HWY_INLINE hn::Vec<DU> pack_bf16(D d, hn::Vec<D> low, hn::Vec<D> high) {
  const hn::RebindToUnsigned<D> du;
  const hn::Repartition<uint16_t, D> du16;
  (void)d;
  const auto l = hn::BitCast(du, low), h = hn::BitCast(du, high);
  const auto upper = hn::OddEven(hn::BitCast(du16, h), hn::BitCast(du16, hn::ShiftRight<16>(l)));
  const auto lower = hn::OddEven(hn::BitCast(du16, hn::ShiftLeft<16>(h)), hn::BitCast(du16, l));
  const auto above_half = hn::OrAnd(lower, upper, hn::Set(du16, 1));
  const auto carry = hn::ShiftRight<15>(hn::AverageRound(above_half, hn::Set(du16, 0x7ffe)));
  return hn::BitCast(du, hn::Add(upper, carry));
}
template <class D>
HWY_INLINE void unpack_bf16(D d, const bf16_t* x, hn::Vec<D>& low, hn::Vec<D>& high) {
  const hn::RebindToUnsigned<D> du;
  const hn::Repartition<uint16_t, D> du16;
  const auto bits = hn::BitCast(du, hn::LoadU(du16, reinterpret_cast<const uint16_t*>(x)));
  low = hn::BitCast(d, hn::ShiftLeft<16>(bits));
  high = hn::BitCast(d, hn::And(bits, hn::Set(du, 0xffff0000)));
}
template <class D, class VU>
HWY_INLINE void store_bf16(D /*d*/, VU bits, bf16_t* out) {
  const hn::Repartition<uint16_t, D> du16;
  hn::StoreU(hn::BitCast(du16, bits), du16, reinterpret_cast<uint16_t*>(out));
}

// n planes, a plane to a lane.
template <size_t kLanes>
HWY_INLINE void pairs_bf16(const bf16_t* x, bf16_t* out, const float* cos, const float* sin, int n) {
  const hn::CappedTag<float, kLanes> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto turn = [&](const bf16_t* xi, bf16_t* yi, const float* ci, const float* si) HWY_ATTR {
    hn::Vec<decltype(d)> a, b;
    unpack_bf16(d, xi, a, b);
    const auto c = hn::LoadU(d, ci), s = hn::LoadU(d, si);
    store_bf16(d, pack_bf16(d, hn::MulSub(a, c, hn::Mul(b, s)), hn::MulAdd(b, c, hn::Mul(a, s))), yi);
  };
  int i = 0;
  for (; i + lanes <= n; i += lanes) turn(x + 2 * i, out + 2 * i, cos + i, sin + i);
  if (i >= n) return;
  if constexpr (kLanes > 4) {
    pairs_bf16<kLanes / 2>(x + 2 * i, out + 2 * i, cos + i, sin + i, n - i);
  } else {
    bf16_t in[2 * kMaxLanes] = {}, result[2 * kMaxLanes] = {};
    copy_lanes(in, x + 2 * i, 2 * (n - i));
    turn(in, result, cos + i, sin + i);  // the table is padded
    copy_lanes(out + 2 * i, result, 2 * (n - i));
  }
}

// n planes, two to a lane: cos and sin of the even planes, and, `odd` floats on, of the odd ones.
template <size_t kLanes>
HWY_INLINE void halves_bf16(const bf16_t* a, const bf16_t* b, bf16_t* out_a, bf16_t* out_b, const float* cos, const float* sin,
                            int odd, int n) {
  const hn::CappedTag<float, kLanes> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto turn = [&](const bf16_t* ai, const bf16_t* bi, bf16_t* ya, bf16_t* yb, const float* ci, const float* si) HWY_ATTR {
    hn::Vec<decltype(d)> a0, a1, b0, b1;
    unpack_bf16(d, ai, a0, a1);
    unpack_bf16(d, bi, b0, b1);
    const auto c0 = hn::LoadU(d, ci), c1 = hn::LoadU(d, ci + odd);
    const auto s0 = hn::LoadU(d, si), s1 = hn::LoadU(d, si + odd);
    store_bf16(d, pack_bf16(d, hn::MulSub(a0, c0, hn::Mul(b0, s0)), hn::MulSub(a1, c1, hn::Mul(b1, s1))), ya);
    store_bf16(d, pack_bf16(d, hn::MulAdd(b0, c0, hn::Mul(a0, s0)), hn::MulAdd(b1, c1, hn::Mul(a1, s1))), yb);
  };
  int i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) turn(a + i, b + i, out_a + i, out_b + i, cos + i / 2, sin + i / 2);
  if (i >= n) return;
  if constexpr (kLanes > 4) {
    halves_bf16<kLanes / 2>(a + i, b + i, out_a + i, out_b + i, cos + i / 2, sin + i / 2, odd, n - i);
  } else {
    bf16_t in[2][2 * kMaxLanes] = {}, result[2][2 * kMaxLanes] = {};
    copy_lanes(in[0], a + i, n - i);
    copy_lanes(in[1], b + i, n - i);
    turn(in[0], in[1], result[0], result[1], cos + i / 2, sin + i / 2);  // the table is padded
    copy_lanes(out_a + i, result[0], n - i);
    copy_lanes(out_b + i, result[1], n - i);
  }
}

// One row of the table for the bf16 kernels, in the order of their lanes, a vector of zeros behind it; every NaN with a payload
// whose lower half is 0, so that no rounding carries into it.
inline constexpr int kOddPlanes = (kChunk + 2 * kMaxLanes) / 2;  // where the odd planes start under halves
struct Bf16Table {
  float cos[kChunk + 2 * kMaxLanes], sin[kChunk + 2 * kMaxLanes];
};
HWY_INLINE float plain_nan(float x) { return x == x ? x : std::numeric_limits<float>::quiet_NaN(); }
template <class D>
HWY_INLINE hn::Vec<D> plain_nans(D d, hn::Vec<D> v) {
  return hn::IfThenElse(hn::IsNaN(v), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), v);
}

HWY_INLINE void fill_bf16_row(float* row, const float* from, int planes, bool by_parity) {
  const hn::CappedTag<float, 16> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  int i = 0;
  if (!by_parity) {
    for (; i + lanes <= planes; i += lanes) hn::StoreU(plain_nans(d, hn::LoadU(d, from + i)), d, row + i);
    for (; i < planes; ++i) row[i] = plain_nan(from[i]);
    for (i = planes; i < planes + kMaxLanes; ++i) row[i] = 0;
    return;
  }
  float* odd = row + kOddPlanes;
  const int pairs = planes / 2;
  for (; i + lanes <= pairs; i += lanes) {
    hn::Vec<decltype(d)> even_planes, odd_planes;
    hn::LoadInterleaved2(d, from + 2 * i, even_planes, odd_planes);
    hn::StoreU(plain_nans(d, even_planes), d, row + i);
    hn::StoreU(plain_nans(d, odd_planes), d, odd + i);
  }
  for (; i < pairs; ++i) {
    row[i] = plain_nan(from[2 * i]);
    odd[i] = plain_nan(from[2 * i + 1]);
  }
  for (i = pairs; i < pairs + kMaxLanes; ++i) row[i] = odd[i] = 0;
  if (planes % 2 != 0) row[pairs] = plain_nan(from[planes - 1]);
}

HWY_INLINE void rotate_row_bf16(const RotateArgs& args, const bf16_t* x, bf16_t* out, const float* cos, const float* sin) {
  Bf16Table table;
  for (int first = 0; first < args.planes; first += kChunk) {
    const int planes = std::min(kChunk, args.planes - first);
    fill_bf16_row(table.cos, cos + first, planes, !args.interleaved);
    fill_bf16_row(table.sin, sin + first, planes, !args.interleaved);
    for (int h = 0; h < args.heads; ++h) {
      const bf16_t* from = x + h * args.x_head_stride + args.begin;
      bf16_t* to = out + h * args.out_head_stride + args.begin;
      if (first == 0) fetch_ahead(from, 4 * args.planes);
      if (args.interleaved) {
        pairs_bf16<16>(from + 2 * first, to + 2 * first, table.cos, table.sin, planes);
      } else {
        halves_bf16<16>(from + first, from + first + args.planes, to + first, to + first + args.planes, table.cos, table.sin,
                        kOddPlanes, planes);
      }
    }
  }
}
#endif

// Every value twice, the first of the two with a minus when asked.
HWY_INLINE void fill_pairs(float* row, const float* from, int planes, bool minus) {
  const hn::CappedTag<float, 16> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto sign = hn::Set(d, minus ? -0.0F : 0.0F);
  int i = 0;
  for (; i + lanes <= planes; i += lanes) {
    const auto v = hn::LoadU(d, from + i);
    hn::StoreInterleaved2(hn::Xor(v, sign), v, d, row + 2 * i);
  }
  for (; i < planes; ++i) {
    row[2 * i] = minus ? -from[i] : from[i];
    row[2 * i + 1] = from[i];
  }
}

#if HWY_CAP_GE512
// 64 planes, the usual head of 128: the doubled table stays in 16 registers while the heads stream by.
template <class T>
HWY_INLINE void interleaved_64(const RotateArgs& args, const T* x, T* out, const float* cos2, const float* sin2) {
  const hn::CappedTag<float, 16> d;
  hn::Vec<decltype(d)> c[8], s[8];
  ROPEWALK_UNROLL
  for (int v = 0; v < 8; ++v) {
    c[v] = hn::Load(d, cos2 + 16 * v);
    s[v] = hn::Load(d, sin2 + 16 * v);
  }
  for (int h = 0; h < args.heads; ++h) {
    const T* from = x + h * args.x_head_stride + args.begin;
    T* to = out + h * args.out_head_stride + args.begin;
    fetch_ahead(from, 128 * int64_t{sizeof(T)});
    ROPEWALK_UNROLL
    for (int v = 0; v < 8; ++v) {
      const auto y = load_f32(d, from + 16 * v);
      store_f32(d, hn::MulAdd(y, c[v], hn::Mul(hn::Reverse2(d, y), s[v])), to + 16 * v);
    }
  }
}
#endif

template <class T>
HWY_INLINE void rotate_interleaved(const RotateArgs& args, const T* x, T* out, const float* cos, const float* sin) {
  alignas(64) float cos2[2 * kChunk], sin2[2 * kChunk];
  for (int first = 0; first < args.planes; first += kChunk) {
    const int planes = std::min(kChunk, args.planes - first);
    fill_pairs(cos2, cos + first, planes, false);
    fill_pairs(sin2, sin + first, planes, HWY_TARGET != HWY_SCALAR);
#if HWY_CAP_GE512
    if (args.planes == 64) return interleaved_64(args, x, out, cos2, sin2);
#endif
    for (int h = 0; h < args.heads; ++h) {
      const int64_t at = args.begin + 2 * first;
      fetch_ahead(x + h * args.x_head_stride + at, 2 * planes * int64_t{sizeof(T)});
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
    if constexpr (std::is_same_v<T, bf16_t> && HWY_TARGET != HWY_SCALAR) {
      rotate_row_bf16(args, x, out, cos, sin);
    } else if (args.interleaved) {
      rotate_interleaved(args, x, out, cos, sin);
    } else {
      for (int h = 0; h < args.heads; ++h) {
        const T* a = x + h * args.x_head_stride + begin;
        T* out_a = out + h * args.out_head_stride + begin;
        fetch_ahead(a, 2 * args.planes * int64_t{sizeof(T)});
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
