#include "ropewalk/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace ropewalk {
namespace {

TEST(DType, EveryHalfSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const f16_t h{static_cast<uint16_t>(bits)};
    const float f = to_f32(h);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(to_f32(to_f16(f))));
    } else {
      EXPECT_EQ(to_f16(f).bits, h.bits);
    }
  }
}

// The oracle rounds in exact arithmetic: a half is an integer multiple of the spacing at its magnitude.
float round_to_half(float x) {
  if (x == 0.0F || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double spacing = std::ldexp(1.0, std::max(exponent - 11, -24));
  const double rounded = std::nearbyint(static_cast<double>(x) / spacing) * spacing;
  return std::fabs(rounded) >= 65520.0 ? std::copysign(std::numeric_limits<float>::infinity(), x) : static_cast<float>(rounded);
}

TEST(DType, HalfRoundsToNearestEven) {
  for (uint32_t i = 0; i < 0x7f800000u; i += 4093) {
    const float x = std::bit_cast<float>(i);
    ASSERT_EQ(to_f32(to_f16(x)), round_to_half(x)) << x;
    ASSERT_EQ(to_f32(to_f16(-x)), round_to_half(-x)) << x;
  }
  for (float x : {65504.0F, 65519.996F, 65520.0F, 1e30F, 0x1p-24F, 0x1p-25F, 0x1.000002p-25F, 0x1.8p-24F}) {
    EXPECT_EQ(to_f32(to_f16(x)), round_to_half(x)) << x;
  }
}

TEST(DType, Bf16RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // tie to even
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808001u)).bits, 0x3f81);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(to_f32(to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace ropewalk
