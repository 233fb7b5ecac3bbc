#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace ropewalk {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers that Salmon et al. publish with the Random123 library (kat_vectors, philox 4 32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // The digits of pi.
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, StartsWithTheFirstBlockAndGoesOn) {
  Random random(0);
  const Words first = philox4x32({0, 0, 0, 0}, {0, 0});
  const Words second = philox4x32({1, 0, 0, 0}, {0, 0});
  for (const uint32_t word : first) EXPECT_EQ(random.next_u32(), word);
  for (const uint32_t word : second) EXPECT_EQ(random.next_u32(), word);
}

TEST(Random, SeedAndStreamUseAllTheirBits) {
  const auto draw = [](uint64_t seed, uint64_t stream) { return Random(seed, stream).next_u64(); };
  const uint64_t base = draw(5, 7);
  EXPECT_EQ(base, draw(5, 7));
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_NE(base, draw(5 ^ (uint64_t{1} << bit), 7)) << bit;
    EXPECT_NE(base, draw(5, 7 ^ (uint64_t{1} << bit))) << bit;
  }
}

// A copy goes on from where the original is, and both give the same.
TEST(Random, CopiesAreIndependent) {
  Random a(3);
  (void)a.next_u32();
  Random b = a;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(a.next_u32(), b.next_u32());
}

// Mean of n draws of variance s^2 stays within 5 s / sqrt(n) of the truth, for all but 1 in 1.7 million seeds; the seed is
// fixed.
TEST(Random, UniformMoments) {
  constexpr int kDraws = 200000;
  Random random(11);
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.uniform();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kDraws));  // Var(U^2) = 1/5 - 1/9
}

// Pearson's statistic over 100 cells has mean 99 and deviation sqrt(2 * 99) = 14.1: below 170 lies all but 1 in 100,000 seeds.
TEST(Random, UniformCells) {
  constexpr int kCells = 100, kDraws = 100000;
  std::vector<int> cells(kCells, 0);
  Random random(12, 3);
  for (int i = 0; i < kDraws; ++i) ++cells[static_cast<size_t>(random.uniform() * kCells)];
  double statistic = 0;
  for (const int count : cells) statistic += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(statistic, 170.0);
  EXPECT_GT(statistic, 50.0);  // too even is not random either
}

TEST(Random, NormalMoments) {
  constexpr int kDraws = 200000;
  Random random(13);
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0, 5 * std::sqrt(2.0 / kDraws));
  EXPECT_NEAR(fourth / kDraws, 3.0, 5 * std::sqrt(96.0 / kDraws));  // Var(X^4) = 105 - 9
}

TEST(Random, BelowIsInRangeAndUnbiased) {
  Random random(14);
  for (const uint64_t n : {uint64_t{1}, uint64_t{2}, uint64_t{3}, (uint64_t{1} << 63) + 1, ~uint64_t{0}}) {
    for (int i = 0; i < 100; ++i) EXPECT_LT(random.below(n), n);
  }
  // With n = 3 * 2^62, taking x % n would give the lowest third twice as often as each of the others: half of all draws.
  constexpr int kDraws = 20000;
  const uint64_t third = uint64_t{1} << 62;
  int low = 0;
  for (int i = 0; i < kDraws; ++i) low += random.below(3 * third) < third;
  EXPECT_NEAR(low / double{kDraws}, 1.0 / 3, 5 * std::sqrt(2.0 / 9 / kDraws));
}

}  // namespace
}  // namespace ropewalk
