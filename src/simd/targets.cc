#include "simd/targets.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

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

bool has_amx_bf16() {
#if defined(__x86_64__) && defined(__linux__)
  static const bool allowed = [] {
    constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    constexpr unsigned kAmxBf16 = 1U << 22, kAmxTile = 1U << 24;
    if ((d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
    return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return allowed;
#else
  return false;
#endif
}

bool bf16_pays() {
#if defined(__x86_64__)
  return has_bf16_dot() && (has_amx_bf16() || __builtin_cpu_is("amd") != 0);
#else
  return false;
#endif
}

std::string highway_version() {
  return std::to_string(HWY_MAJOR) + '.' + std::to_string(HWY_MINOR) + '.' + std::to_string(HWY_PATCH);
}

}  // namespace ropewalk
