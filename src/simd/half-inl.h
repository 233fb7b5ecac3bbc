// Loads and stores of f32, f16 and bf16 arrays as f32 vectors, conversion in registers. Compiled once per SIMD target.
//
// Narrowing rounds to nearest even; NaN stays NaN. Highway 1.0.3 truncates when it narrows to bf16, and its f16 conversions for
// targets without F16C neither round nor know infinities, so both are written here.
#if defined(ROPEWALK_SIMD_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_SIMD_HALF_INL_H_
#undef ROPEWALK_SIMD_HALF_INL_H_
#else
#define ROPEWALK_SIMD_HALF_INL_H_
#endif

#include <hwy/highway.h>

#include "ropewalk/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const float* x) {
  return hn::LoadU(d, x);
}
template <class D>
HWY_INLINE void store_f32(D d, hn::Vec<D> v, float* out) {
  hn::StoreU(v, d, out);
}

template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const bf16_t* x) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> du16;
  const auto bits = hn::PromoteTo(du, hn::LoadU(du16, reinterpret_cast<const uint16_t*>(x)));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}
template <class D>
HWY_INLINE void store_f32([[maybe_unused]] D d, hn::Vec<D> v, bf16_t* out) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> du16;
  const auto bits = hn::BitCast(du, v);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff))));
  // Rounding up could carry a NaN with a full payload into infinity or zero: make it quiet instead.
  const auto quiet = hn::Or(upper, hn::Set(du, 0x40));
  const auto result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
  hn::StoreU(hn::TruncateTo(du16, result), du16, reinterpret_cast<uint16_t*>(out));
}

#if HWY_TARGET >= HWY_SSE4 && (HWY_ARCH_X86 || HWY_TARGET >= HWY_EMU128)
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const f16_t* x) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> du16;
  const auto bits = hn::PromoteTo(du, hn::LoadU(du16, reinterpret_cast<const uint16_t*>(x)));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fff));
  // Exponent bias 15 -> 127 as one exact multiplication by 2^112, which is right for subnormals too.
  const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), hn::Set(d, 0x1p112f)));
  const auto special = hn::Or(hn::ShiftLeft<13>(magnitude), hn::Set(du, 0x7f800000));
  const hn::RebindToSigned<D> di;
  const auto is_special = hn::RebindMask(du, hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7bff)));
  return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_special, special, finite)));
}
template <class D>
HWY_INLINE void store_f32(D d, hn::Vec<D> v, f16_t* out) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> du16;
  const auto bits = hn::BitCast(du, v);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000));
  const auto a = hn::And(bits, hn::Set(du, 0x7fffffff));
  const auto ai = hn::BitCast(di, a);
  // Normal: round in the integer; carries into the exponent are right, up to infinity.
  const auto odd = hn::And(hn::ShiftRight<13>(a), hn::Set(du, 1));
  const auto normal = hn::ShiftRight<13>(hn::Sub(hn::Add(a, hn::Add(odd, hn::Set(du, 0xfff))), hn::Set(du, 0x38000000)));
  // Subnormal: adding 0.5 leaves a last bit of weight 2^-24, so the addition rounds.
  const auto small = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, a), hn::Set(d, 0.5f))), hn::Set(du, 0x3f000000));
  auto half = hn::IfThenElse(hn::RebindMask(du, hn::Lt(ai, hn::Set(di, 0x38800000))), small, normal);
  half = hn::IfThenElse(hn::RebindMask(du, hn::Gt(ai, hn::Set(di, 0x477fefff))), hn::Set(du, 0x7c00), half);
  half = hn::IfThenElse(hn::RebindMask(du, hn::Gt(ai, hn::Set(di, 0x7f800000))), hn::Set(du, 0x7e00), half);
  hn::StoreU(hn::TruncateTo(du16, hn::Or(half, sign)), du16, reinterpret_cast<uint16_t*>(out));
}
#else
template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const f16_t* x) {
  const hn::Rebind<hwy::float16_t, D> df16;
  return hn::PromoteTo(d, hn::LoadU(df16, reinterpret_cast<const hwy::float16_t*>(x)));
}
template <class D>
HWY_INLINE void store_f32(D d, hn::Vec<D> v, f16_t* out) {
  (void)d;
  const hn::Rebind<hwy::float16_t, D> df16;
  hn::StoreU(hn::DemoteTo(df16, v), df16, reinterpret_cast<hwy::float16_t*>(out));
}
#endif

}  // namespace ropewalk::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
