#include "simd/limits.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "simd/fetch_ahead.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/limits.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the first target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ropewalk::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

uint32_t ReadAll(const float* values, size_t count) {
  const hn::ScalableTag<uint32_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto* words = reinterpret_cast<const uint32_t*>(values);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (size_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Xor(a, hn::LoadU(d, words + i));
    b = hn::Xor(b, hn::LoadU(d, words + i + lanes));
    c = hn::Xor(c, hn::LoadU(d, words + i + 2 * lanes));
    e = hn::Xor(e, hn::LoadU(d, words + i + 3 * lanes));
  }
  HWY_ALIGN uint32_t parts[HWY_MAX_BYTES / 4];
  hn::Store(hn::Xor(hn::Xor(a, b), hn::Xor(c, e)), d, parts);
  uint32_t all = 0;
  for (size_t i = 0; i < lanes; ++i) all ^= parts[i];
  return all;
}

void ScaleInPlace(float* values, size_t count, float factor) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto f = hn::Set(d, factor);
  for (size_t i = 0; i + 2 * lanes <= count; i += 2 * lanes) {
    simd::fetch_ahead(values + i, static_cast<int64_t>(2 * lanes * sizeof(float)));
    hn::StoreU(hn::Mul(f, hn::LoadU(d, values + i)), d, values + i);
    hn::StoreU(hn::Mul(f, hn::LoadU(d, values + i + lanes)), d, values + i + lanes);
  }
}

// Twelve chains: enough to cover a latency of 4 to 6 cycles on two units, and with both constants they fit 16 registers. Each
// chain starts from its own value in memory, so that the compiler cannot merge chains that it would see to be equal.
double MultiplyAddF32(int64_t rounds, const float* start, float* end) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto a = hn::LoadU(d, start), b = hn::LoadU(d, start + lanes);
  const float* from = start + 2 * lanes;
  auto x0 = hn::LoadU(d, from), x1 = hn::LoadU(d, from + lanes), x2 = hn::LoadU(d, from + 2 * lanes);
  auto x3 = hn::LoadU(d, from + 3 * lanes), x4 = hn::LoadU(d, from + 4 * lanes), x5 = hn::LoadU(d, from + 5 * lanes);
  auto x6 = hn::LoadU(d, from + 6 * lanes), x7 = hn::LoadU(d, from + 7 * lanes), x8 = hn::LoadU(d, from + 8 * lanes);
  auto x9 = hn::LoadU(d, from + 9 * lanes), x10 = hn::LoadU(d, from + 10 * lanes), x11 = hn::LoadU(d, from + 11 * lanes);
  for (int64_t i = 0; i < rounds; ++i) {
    x0 = hn::MulAdd(x0, a, b);
    x1 = hn::MulAdd(x1, a, b);
    x2 = hn::MulAdd(x2, a, b);
    x3 = hn::MulAdd(x3, a, b);
    x4 = hn::MulAdd(x4, a, b);
    x5 = hn::MulAdd(x5, a, b);
    x6 = hn::MulAdd(x6, a, b);
    x7 = hn::MulAdd(x7, a, b);
    x8 = hn::MulAdd(x8, a, b);
    x9 = hn::MulAdd(x9, a, b);
    x10 = hn::MulAdd(x10, a, b);
    x11 = hn::MulAdd(x11, a, b);
  }
  const auto low = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(x4, x5));
  const auto high = hn::Add(hn::Add(hn::Add(x6, x7), hn::Add(x8, x9)), hn::Add(x10, x11));
  hn::StoreU(hn::Add(low, high), d, end);
  return 2.0 * 12 * static_cast<double>(lanes) * static_cast<double>(rounds);
}

}  // namespace ropewalk::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk {
namespace {

HWY_EXPORT(ReadAll);
HWY_EXPORT(ScaleInPlace);
HWY_EXPORT(MultiplyAddF32);

#if defined(__x86_64__)
// Debian's Highway knows no vdpbf16ps. One asm block with named registers: an array of accumulators would go through memory.
__attribute__((target("avx512f,avx512bf16"), noinline)) void dot_rounds(int64_t rounds, float* out) {
  asm volatile(
      "vpxord %%zmm0, %%zmm0, %%zmm0\n\t vpxord %%zmm1, %%zmm1, %%zmm1\n\t vpxord %%zmm2, %%zmm2, %%zmm2\n\t"
      "vpxord %%zmm3, %%zmm3, %%zmm3\n\t vpxord %%zmm4, %%zmm4, %%zmm4\n\t vpxord %%zmm5, %%zmm5, %%zmm5\n\t"
      "vpxord %%zmm6, %%zmm6, %%zmm6\n\t vpxord %%zmm7, %%zmm7, %%zmm7\n\t vpxord %%zmm8, %%zmm8, %%zmm8\n\t"
      "vpxord %%zmm9, %%zmm9, %%zmm9\n\t vpxord %%zmm10, %%zmm10, %%zmm10\n\t vpxord %%zmm11, %%zmm11, %%zmm11\n\t"
      "vpbroadcastd %k2, %%zmm12\n\t vpbroadcastd %k2, %%zmm13\n\t"
      "1:\n\t"
      "vdpbf16ps %%zmm12, %%zmm13, %%zmm0\n\t vdpbf16ps %%zmm12, %%zmm13, %%zmm1\n\t"
      "vdpbf16ps %%zmm12, %%zmm13, %%zmm2\n\t vdpbf16ps %%zmm12, %%zmm13, %%zmm3\n\t"
      "vdpbf16ps %%zmm12, %%zmm13, %%zmm4\n\t vdpbf16ps %%zmm12, %%zmm13, %%zmm5\n\t"
      "vdpbf16ps %%zmm12, %%zmm13, %%zmm6\n\t vdpbf16ps %%zmm12, %%zmm13, %%zmm7\n\t"
      "vdpbf16ps %%zmm12, %%zmm13, %%zmm8\n\t vdpbf16ps %%zmm12, %%zmm13, %%zmm9\n\t"
      "vdpbf16ps %%zmm12, %%zmm13, %%zmm10\n\t vdpbf16ps %%zmm12, %%zmm13, %%zmm11\n\t"
      "sub $1, %0\n\t jnz 1b\n\t"
      "vmovups %%zmm0, (%1)\n\t"
      : "+r"(rounds)
      : "r"(out), "r"(0x3f803f80)  // the pair (1, 1)
      : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
        "xmm12", "xmm13");
}

// Four sums, two left and two right sides, as in a kernel; all elements are pairs (1, 1).
__attribute__((noinline)) void tile_rounds(int64_t rounds, float* out) {
  alignas(64) uint8_t palette[64] = {1};
  for (int i = 0; i < 8; ++i) {
    palette[16 + 2 * i] = 64;  // bytes of a row
    palette[48 + i] = 16;      // rows
  }
  alignas(64) uint32_t ones[16 * 16];
  std::fill(std::begin(ones), std::end(ones), 0x3f803f80U);
  asm volatile(
      "ldtilecfg (%2)\n\t"
      "tilezero %%tmm0\n\t tilezero %%tmm1\n\t tilezero %%tmm2\n\t tilezero %%tmm3\n\t"
      "tileloadd (%3,%4,1), %%tmm4\n\t tileloadd (%3,%4,1), %%tmm5\n\t"
      "tileloadd (%3,%4,1), %%tmm6\n\t tileloadd (%3,%4,1), %%tmm7\n\t"
      "1:\n\t"
      "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
      "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
      "sub $1, %0\n\t jnz 1b\n\t"
      "tilestored %%tmm3, (%1,%4,1)\n\t tilerelease\n\t"
      : "+r"(rounds)
      : "r"(out), "r"(palette), "r"(ones), "r"(int64_t{64})
      : "cc", "memory");
}

constexpr double kTileOperations = 4 * 16 * 16 * 64;  // four tiles of 16 by 16, 32 multiply-adds deep
constexpr double kDotOperations = 12 * 16 * 4;        // twelve vectors of 16 lanes, two multiply-adds each
double run_tiles(int64_t rounds, float& sink) {
  alignas(64) float out[16 * 16];
  tile_rounds(rounds, out);
  sink = out[0];
  return kTileOperations * static_cast<double>(rounds);
}
double run_dots(int64_t rounds, float& sink) {
  float out[16];
  dot_rounds(rounds, out);
  sink = out[0];
  return kDotOperations * static_cast<double>(rounds);
}
#endif

}  // namespace

uint32_t read_all(std::span<const float> values) { return HWY_DYNAMIC_DISPATCH(ReadAll)(values.data(), values.size()); }

void scale_in_place(std::span<float> values, float factor) {
  HWY_DYNAMIC_DISPATCH(ScaleInPlace)(values.data(), values.size(), factor);
}

double multiply_add_f32(int64_t rounds, float& sink) {
  constexpr size_t kMaxLanes = 64;  // of any target; HWY_MAX_BYTES here would be that of the static one
  // x -> x a + b with 0 < a < 1 tends to b / (1 - a): no overflow and no denormals, however many rounds.
  float start[14 * kMaxLanes], end[kMaxLanes] = {};
  for (size_t i = 0; i < std::size(start); ++i) start[i] = 0.5F + static_cast<float>(i) * 0.001F;
  asm volatile("" : : "r"(start) : "memory");
  const double operations = HWY_DYNAMIC_DISPATCH(MultiplyAddF32)(rounds, start, end);
  sink = end[0];
  return operations;
}

std::span<const Bf16Unit> bf16_units() {
  static const std::vector<Bf16Unit> units = [] {
    std::vector<Bf16Unit> list;
#if defined(__x86_64__)
    if (has_amx_bf16()) list.push_back({"tdpbf16ps", kTileOperations, 32, run_tiles});
    if (has_bf16_dot()) list.push_back({"vdpbf16ps", kDotOperations, 2, run_dots});
#endif
    return list;
  }();
  return units;
}

}  // namespace ropewalk
#endif
