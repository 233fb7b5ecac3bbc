#include "simd/targets.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

namespace ropewalk {
namespace {

// In Highway a better target has a lower bit.
std::vector<std::string> names(int64_t targets) {
  std::vector<std::string> list;
  for (uint64_t left = static_cast<uint64_t>(targets); left != 0; left &= left - 1) {
    list.emplace_back(hwy::TargetName(static_cast<int64_t>(left & (~left + 1))));
  }
  return list;
}

}  // namespace

std::vector<std::string> simd_targets_compiled() { return names(HWY_TARGETS); }

std::vector<std::string> simd_targets_supported() { return names(HWY_TARGETS & hwy::SupportedTargets()); }

std::string simd_target_in_use() {
  const auto supported = simd_targets_supported();
  return supported.empty() ? "none" : supported.front();
}

bool has_bf16_dot() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

std::string highway_version() {
  return std::to_string(HWY_MAJOR) + '.' + std::to_string(HWY_MINOR) + '.' + std::to_string(HWY_PATCH);
}

}  // namespace ropewalk
