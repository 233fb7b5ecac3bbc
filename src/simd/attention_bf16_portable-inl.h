// What AVX512_BF16 does in one instruction, on every target. The native pair stands in attention_native.cc.
#if defined(ROPEWALK_SIMD_ATTENTION_BF16_PORTABLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_SIMD_ATTENTION_BF16_PORTABLE_INL_H_
#undef ROPEWALK_SIMD_ATTENTION_BF16_PORTABLE_INL_H_
#else
#define ROPEWALK_SIMD_ATTENTION_BF16_PORTABLE_INL_H_
#endif

#include "simd/attention_kernels.h"

ROPEWALK_BEFORE_TARGET
namespace ropewalk {
namespace HWY_NAMESPACE {
namespace ROPEWALK_VARIANT {
namespace {

using Bf16Floats = hwy::HWY_NAMESPACE::CappedTag<float, kMaxLanes>;
using Bf16Pairs = hwy::HWY_NAMESPACE::RebindToUnsigned<Bf16Floats>;

// sum + a.even * b.even + a.odd * b.odd in f32; a lane holds two bf16, the even one below.
HWY_INLINE hwy::HWY_NAMESPACE::Vec<Bf16Floats> dot2_bf16(hwy::HWY_NAMESPACE::Vec<Bf16Floats> sum,
                                                         hwy::HWY_NAMESPACE::Vec<Bf16Pairs> a,
                                                         hwy::HWY_NAMESPACE::Vec<Bf16Pairs> b) {
  namespace hn = hwy::HWY_NAMESPACE;
  const Bf16Floats df;
  const Bf16Pairs du;
  const auto upper = hn::Set(du, 0xFFFF0000U);
  const auto odd = hn::MulAdd(hn::BitCast(df, hn::And(a, upper)), hn::BitCast(df, hn::And(b, upper)), sum);
  return hn::MulAdd(hn::BitCast(df, hn::ShiftLeft<16>(a)), hn::BitCast(df, hn::ShiftLeft<16>(b)), odd);
}

// The lanes of low, then those of high, rounded to bf16 (nearest, ties to even), two in a lane. Finite inputs.
HWY_INLINE hwy::HWY_NAMESPACE::Vec<Bf16Pairs> round_to_pairs(hwy::HWY_NAMESPACE::Vec<Bf16Floats> low,
                                                             hwy::HWY_NAMESPACE::Vec<Bf16Floats> high) {
  namespace hn = hwy::HWY_NAMESPACE;
  const Bf16Floats df;
  const Bf16Pairs du;
  constexpr int kCount = static_cast<int>(HWY_LANES(float)) < kMaxLanes ? static_cast<int>(HWY_LANES(float)) : kMaxLanes;
  HWY_ALIGN float both[2 * kCount];
  hn::Store(low, df, both);
  hn::Store(high, df, both + kCount);
  hn::Vec<Bf16Floats> even;
  hn::Vec<Bf16Floats> odd;
  hn::LoadInterleaved2(df, both, even, odd);
  const auto one = hn::Set(du, 1U);
  const auto half = hn::Set(du, 0x7FFFU);
  const auto e = hn::BitCast(du, even);
  const auto o = hn::BitCast(du, odd);
  const auto e_rounded = hn::Add(e, hn::Add(half, hn::And(hn::ShiftRight<16>(e), one)));
  const auto o_rounded = hn::Add(o, hn::Add(half, hn::And(hn::ShiftRight<16>(o), one)));
  return hn::Or(hn::ShiftRight<16>(e_rounded), hn::And(o_rounded, hn::Set(du, 0xFFFF0000U)));
}

}  // namespace
}  // namespace ROPEWALK_VARIANT
}  // namespace HWY_NAMESPACE
}  // namespace ropewalk
ROPEWALK_AFTER_TARGET

#endif  // per-target guard
