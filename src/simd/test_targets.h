// For tests only: a fixture that runs each test once on every SIMD target of this machine.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <string>

namespace ropewalk::simd {

class EachTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

inline auto all_targets() { return testing::ValuesIn(hwy::SupportedAndGeneratedTargets()); }
inline std::string target_name(const testing::TestParamInfo<int64_t>& target) { return hwy::TargetName(target.param); }

// For tests outside of this folder: body(name of the target), once on every SIMD target of this machine.
template <class Body>
void on_each_target(Body body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    body(std::string(hwy::TargetName(target)));
    hwy::SetSupportedTargetsForTest(0);
  }
}

}  // namespace ropewalk::simd
