#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace ropewalk {
namespace {

TEST(Sampler, GreedyTakesTheFirstOfEquals) {
  EXPECT_EQ(greedy_token(std::vector<float>{1, 3, 3, 2}), 1);
  Random random(1);
  EXPECT_EQ(sample_token(std::vector<float>{1, 3, 3, 2}, 0, random).value(), 1);
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  const std::vector<float> logits = {0.5F, -1.0F, 2.0F, -std::numeric_limits<float>::infinity()};
  const double temperature = 0.7;
  std::array<double, 4> want{};
  double sum = 0;
  for (size_t i = 0; i < 4; ++i) sum += want[i] = std::exp(static_cast<double>(logits[i]) / temperature);
  Random random(3);
  std::array<int, 4> seen{};
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++seen[static_cast<size_t>(sample_token(logits, temperature, random).value())];
  for (size_t i = 0; i < 4; ++i) {
    const double p = want[i] / sum;
    // Five standard deviations of a binomial share.
    EXPECT_NEAR(seen[i] / static_cast<double>(kDraws), p, 5 * std::sqrt(p * (1 - p) / kDraws) + 1e-12);
  }
}

TEST(Sampler, SameSeedSameTokens) {
  std::vector<float> logits(1000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 17) * 0.3F;
  Random a(9), b(9);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(sample_token(logits, 1, a).value(), sample_token(logits, 1, b).value());
}

TEST(Sampler, RefusesBadTemperatures) {
  Random random(1);
  const std::vector<float> logits = {1, 2};
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(sample_token(logits, bad, random).error().code(), ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(sample_token({}, 1, random));
}

}  // namespace
}  // namespace ropewalk
