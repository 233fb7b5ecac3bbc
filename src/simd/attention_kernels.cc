#include "simd/attention_kernels.h"

// Sizeless vectors cannot be accumulators in an array.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/attention_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#define ROPEWALK_BEFORE_TARGET HWY_BEFORE_NAMESPACE();
#define ROPEWALK_AFTER_TARGET HWY_AFTER_NAMESPACE();
#define ROPEWALK_VARIANT portable

#include "simd/attention_bf16_portable-inl.h"
#include "simd/attention_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk {
namespace HWY_NAMESPACE {

const AttentionKernels* f32_attention_kernels() {
  static constexpr AttentionKernels kKernels = portable::make_kernels<portable::F32Product>("f32");
  return &kKernels;
}
const AttentionKernels* bf16_attention_kernels() {
  static constexpr AttentionKernels kKernels = portable::make_kernels<portable::Bf16Product>("bf16 emulated");
  return &kKernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace ropewalk
HWY_AFTER_NAMESPACE();

#undef ROPEWALK_BEFORE_TARGET
#undef ROPEWALK_AFTER_TARGET
#undef ROPEWALK_VARIANT

#if HWY_ONCE
#include <atomic>

#include "simd/attention_native.h"

namespace ropewalk {

HWY_EXPORT(f32_attention_kernels);
HWY_EXPORT(bf16_attention_kernels);

namespace {
std::atomic<const AttentionKernels*> bf16_set_for_test{nullptr};
}

std::vector<const AttentionKernels*> bf16_attention_sets() {
  std::vector<const AttentionKernels*> sets = native_bf16_kernels();
  sets.push_back(HWY_DYNAMIC_DISPATCH(bf16_attention_kernels)());
  return sets;
}

void set_bf16_attention_for_test(const AttentionKernels* kernels) { bf16_set_for_test = kernels; }

const AttentionKernels& attention_kernels(DType compute) {
  if (compute == DType::kF32) return *HWY_DYNAMIC_DISPATCH(f32_attention_kernels)();
  if (const AttentionKernels* set = bf16_set_for_test; set != nullptr) return *set;
  return *bf16_attention_sets().front();
}

}  // namespace ropewalk
#endif
