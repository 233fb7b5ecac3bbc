#include "simd/limits.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <vector>

#include "simd/targets.h"

namespace ropewalk {
namespace {

// Every target of this build that the processor runs.
template <class Body>
void on_each_target(const Body& body) {
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t left = supported; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(left & -left));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(Limits, ReadAllReadsEveryElement) {
  on_each_target([](const char* target) {
    for (size_t count : {size_t{256}, size_t{512}, size_t{4096}}) {
      std::vector<float> values(count);
      uint32_t expected = 0;
      for (size_t i = 0; i < count; ++i) {
        values[i] = static_cast<float>(i * i) + 0.37F;
        expected ^= std::bit_cast<uint32_t>(values[i]);
      }
      EXPECT_EQ(read_all(values), expected) << target;
      for (size_t i = 0; i < count; i += 37) {  // no element is left out
        values[i] = -values[i];
        EXPECT_EQ(read_all(values), expected ^ 0x80000000U) << target << ' ' << i;
        values[i] = -values[i];
      }
    }
  });
}

TEST(Limits, ScaleWritesEveryElement) {
  on_each_target([](const char* target) {
    std::vector<float> values(768);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    scale_in_place(values, 0.5F);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], 0.5F * static_cast<float>(i)) << target;
  });
}

TEST(Limits, MultiplyAddRunsEveryChain) {
  on_each_target([](const char* target) {
    float sum = 0;
    const double lanes = multiply_add_f32(200, sum) / (24 * 200);
    EXPECT_EQ(lanes, std::floor(lanes)) << target;
    EXPECT_GE(lanes, 1) << target;
    // Fixed point of x -> x / 2 + b: each chain ends within 1 ulp of 2 b, and 11 additions round by at most 1/2 ulp of the sum
    // each.
    const double expected = 24 * (0.5 + 0.001 * lanes);
    EXPECT_NEAR(sum, expected, 16 * 6e-8 * expected) << target;
  });
}

TEST(Limits, Bf16UnitsCount) {
  EXPECT_EQ(bf16_units().size(), static_cast<size_t>(has_bf16_dot()) + static_cast<size_t>(has_amx_bf16()));
  for (const Bf16Unit& unit : bf16_units()) {
    float sum = -1;
    EXPECT_EQ(unit.run(100, sum), 100 * unit.operations) << unit.instruction;
    EXPECT_EQ(sum, 100 * unit.sum) << unit.instruction;
  }
}

TEST(Targets, InUseIsTheBestSupported) {
  const auto compiled = simd_targets_compiled(), supported = simd_targets_supported();
  ASSERT_FALSE(supported.empty());
  EXPECT_EQ(simd_target_in_use(), supported.front());
  for (const auto& name : supported) EXPECT_NE(std::find(compiled.begin(), compiled.end(), name), compiled.end()) << name;
}

}  // namespace
}  // namespace ropewalk
