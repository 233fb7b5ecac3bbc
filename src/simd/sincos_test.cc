// sincos_products against golden values (mpmath, 120 digits) and between targets.
#include "simd/sincos.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "simd/test_targets.h"

namespace ropewalk::simd {
namespace {

struct Row {
  int64_t m;
  double f, cos, sin;
};
const Row kGolden[] = {
#include "simd/golden_sincos.inc"
};

// One unit in the last place of the float nearest to x.
double float_ulp(double x) {
  const float a = std::abs(static_cast<float>(x));
  return static_cast<double>(std::nextafter(a, std::numeric_limits<float>::infinity()) - a);
}

std::vector<double> column(double (*get)(const Row&)) {
  std::vector<double> out;
  for (const Row& row : kGolden) out.push_back(get(row));
  return out;
}

// The claim is 1 float ulp. The double path carries about 2^-52 relative beside zeros too, so the float is within 0.51 ulp:
// half an ulp of the final rounding and what a double before it can add.
TEST_P(EachTarget, GoldenWithinOneUlpBesideZerosToo_pre_beside_zeros) {
  const auto m = column([](const Row& r) { return static_cast<double>(r.m); });
  const auto f = column([](const Row& r) { return r.f; });
  const auto n = static_cast<int64_t>(m.size());
  std::vector<float> cos(m.size()), sin(m.size());
  std::vector<double> cos64(m.size()), sin64(m.size());
  sincos_products(m.data(), f.data(), n, 1.0, cos.data(), sin.data());
  sincos_products(m.data(), f.data(), n, 1.0, cos64.data(), sin64.data());
  for (size_t i = 0; i < m.size(); ++i) {
    const Row& row = kGolden[i];
    EXPECT_LE(std::abs(static_cast<double>(cos[i]) - row.cos), 0.51 * float_ulp(row.cos)) << row.m << " * " << row.f;
    EXPECT_LE(std::abs(static_cast<double>(sin[i]) - row.sin), 0.51 * float_ulp(row.sin)) << row.m << " * " << row.f;
    EXPECT_NEAR(cos64[i], row.cos, 4 * 0x1p-53 * std::abs(row.cos)) << row.m << " * " << row.f;
    EXPECT_NEAR(sin64[i], row.sin, 4 * 0x1p-53 * std::abs(row.sin)) << row.m << " * " << row.f;
  }
}

// Any position and frequency. long double holds the product to 2^-64 of itself: 2^-33 at 2^31, so 2^-32 absolute is a sound
// bound on the oracle; the float adds half an ulp of 1, 2^-25.
TEST_P(EachTarget, RandomAgainstLongDouble) {
  std::mt19937_64 random(7);
  std::vector<double> m, f;
  for (int i = 0; i < 20001; ++i) {
    m.push_back(std::floor(std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -32)));
    f.push_back(std::pow(1e6, -static_cast<double>(random() % 1000) / 1000));
  }
  std::vector<float> cos(m.size()), sin(m.size());
  sincos_products(m.data(), f.data(), static_cast<int64_t>(m.size()), 1.0, cos.data(), sin.data());
  for (size_t i = 0; i < m.size(); ++i) {
    const long double angle = static_cast<long double>(m[i]) * static_cast<long double>(f[i]);
    ASSERT_NEAR(static_cast<double>(cos[i]), static_cast<double>(std::cos(angle)), 0x1p-25 + 0x1p-32) << m[i] << " * " << f[i];
    ASSERT_NEAR(static_cast<double>(sin[i]), static_cast<double>(std::sin(angle)), 0x1p-25 + 0x1p-32) << m[i] << " * " << f[i];
  }
}

TEST_P(EachTarget, EveryLengthSameBitsAndNothingBeyond) {
  constexpr int kMax = 35;
  const auto m = column([](const Row& r) { return static_cast<double>(r.m); });
  const auto f = column([](const Row& r) { return r.f; });
  std::vector<float> all_cos(m.size()), all_sin(m.size());
  hwy::SetSupportedTargetsForTest(0);
  sincos_products(m.data(), f.data(), static_cast<int64_t>(m.size()), 1.25, all_cos.data(), all_sin.data());
  hwy::SetSupportedTargetsForTest(GetParam());
  for (int n = 0; n <= kMax; ++n) {
    for (size_t at = 0; at + kMax < m.size(); at += 31) {
      std::vector<float> cos(kMax + 1, -7.0F), sin(kMax + 1, -7.0F);
      sincos_products(m.data() + at, f.data() + at, n, 1.25, cos.data(), sin.data());
      for (size_t i = 0; i <= kMax; ++i) {
        const bool inside = i < static_cast<size_t>(n);
        ASSERT_EQ(std::bit_cast<uint32_t>(cos[i]), std::bit_cast<uint32_t>(inside ? all_cos[at + i] : -7.0F)) << n << " " << i;
        ASSERT_EQ(std::bit_cast<uint32_t>(sin[i]), std::bit_cast<uint32_t>(inside ? all_sin[at + i] : -7.0F)) << n << " " << i;
      }
    }
  }
}

TEST_P(EachTarget, SymmetricAndExactAtZero) {
  const double m[] = {0, 12345, -12345, 0x1p31, -0x1p31}, f[] = {0.3, 0.3, 0.3, 0.7, 0.7};
  double cos[5], sin[5];
  sincos_products(m, f, 5, 1.0, cos, sin);
  EXPECT_EQ(cos[0], 1);
  EXPECT_EQ(sin[0], 0);
  for (int i : {1, 3}) {
    EXPECT_EQ(cos[i], cos[i + 1]);
    EXPECT_EQ(sin[i], -sin[i + 1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Simd, EachTarget, all_targets(), target_name);

}  // namespace
}  // namespace ropewalk::simd
