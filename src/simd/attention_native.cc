// attention_products-inl.h once more, with vdpbf16ps for the dot product and vcvtne2ps2bf16 for the rounding: the only two
// functions that differ from the portable set. Compiled for Highway's AVX3 (AVX-512 F, BW, DQ, VL) plus AVX512_BF16; called
// after a check of the processor.
#include "simd/attention_native.h"

#include <hwy/detect_targets.h>

#include "simd/targets.h"

#if HWY_ARCH_X86 && HWY_ARCH_X86_64 && (HWY_TARGETS & HWY_AVX3) && (HWY_COMPILER_GCC || HWY_COMPILER_CLANG)
#define ROPEWALK_HAS_NATIVE_BF16 1
#else
#define ROPEWALK_HAS_NATIVE_BF16 0
#endif

#if ROPEWALK_HAS_NATIVE_BF16

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET
#define HWY_TARGET HWY_AVX3
#include <hwy/highway.h>

#define ROPEWALK_BEFORE_TARGET HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR_AVX3 ",avx512bf16")
#define ROPEWALK_AFTER_TARGET HWY_POP_ATTRIBUTES
#define ROPEWALK_VARIANT native

ROPEWALK_BEFORE_TARGET
namespace ropewalk {
namespace HWY_NAMESPACE {
namespace ROPEWALK_VARIANT {
namespace {

using Bf16Floats = hwy::HWY_NAMESPACE::CappedTag<float, kMaxLanes>;
using Bf16Pairs = hwy::HWY_NAMESPACE::RebindToUnsigned<Bf16Floats>;

HWY_INLINE hwy::HWY_NAMESPACE::Vec<Bf16Floats> dot2_bf16(hwy::HWY_NAMESPACE::Vec<Bf16Floats> sum,
                                                         hwy::HWY_NAMESPACE::Vec<Bf16Pairs> a,
                                                         hwy::HWY_NAMESPACE::Vec<Bf16Pairs> b) {
  return hwy::HWY_NAMESPACE::Vec<Bf16Floats>{
      _mm512_dpbf16_ps(sum.raw, __builtin_bit_cast(__m512bh, a.raw), __builtin_bit_cast(__m512bh, b.raw))};
}

HWY_INLINE hwy::HWY_NAMESPACE::Vec<Bf16Pairs> round_to_pairs(hwy::HWY_NAMESPACE::Vec<Bf16Floats> low,
                                                             hwy::HWY_NAMESPACE::Vec<Bf16Floats> high) {
  return hwy::HWY_NAMESPACE::Vec<Bf16Pairs>{__builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(high.raw, low.raw))};
}

}  // namespace
}  // namespace ROPEWALK_VARIANT
}  // namespace HWY_NAMESPACE
}  // namespace ropewalk
ROPEWALK_AFTER_TARGET

#include "simd/attention_pack-inl.h"

namespace ropewalk {

const AttentionKernels* native_bf16_kernels() {
  static const bool cpu = has_bf16_dot();
  static constexpr AttentionKernels kKernels = HWY_NAMESPACE::native::make_kernels<HWY_NAMESPACE::native::Bf16Product>();
  return cpu && (hwy::SupportedTargets() & HWY_AVX3) != 0 ? &kKernels : nullptr;
}

}  // namespace ropewalk

#else

namespace ropewalk {

const AttentionKernels* native_bf16_kernels() { return nullptr; }

}  // namespace ropewalk

#endif
