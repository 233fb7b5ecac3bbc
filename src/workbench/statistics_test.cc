#include "workbench/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace ropewalk {
namespace {

// AR(1) with mean `mean` and unit innovations: the true mean is known, and neighbours are alike as in losses of text.
std::vector<double> autoregressive(int64_t n, double phi, double mean, uint64_t stream) {
  Random random(7, stream);
  std::vector<double> x(static_cast<size_t>(n));
  double state = random.normal() / std::sqrt(1 - phi * phi);
  for (double& value : x) {
    value = mean + state;
    state = phi * state + random.normal();
  }
  return x;
}

double coverage(int64_t n, double phi, int trials) {
  int hits = 0;
  for (int t = 0; t < trials; ++t) {
    const auto x = autoregressive(n, phi, 3.5, static_cast<uint64_t>(t));
    const Interval i = bootstrap_mean(x, {.seed = 1, .stream = static_cast<uint64_t>(t), .replicates = 500});
    hits += i.low <= 3.5 && 3.5 <= i.high;
  }
  return static_cast<double>(hits) / trials;
}

// With 600 trials the standard error of a coverage of 0.95 is sqrt(.95 * .05 / 600) = 0.009, so 4 of them are 0.036. Strong
// dependence and few tokens cost a bootstrap some coverage in theory (bias of order block/n), for which 0.04 more is allowed at
// phi = 0.8.
TEST(Bootstrap, CoversTheTrueMeanOfIndependentSeries) { EXPECT_NEAR(coverage(255, 0, 600), 0.95, 0.036); }
TEST(Bootstrap, CoversTheTrueMeanOfDependentSeries) {
  EXPECT_NEAR(coverage(1024, 0.3, 600), 0.95, 0.036);
  EXPECT_NEAR(coverage(2047, 0.8, 600), 0.95, 0.076);
}
TEST(Bootstrap, CoversTheTrueMeanOfShortSeries) { EXPECT_NEAR(coverage(63, 0.2, 600), 0.95, 0.056); }
TEST(Bootstrap, IgnoringDependenceWouldNotCover) {
  // What the blocks are for: at phi = 0.8 a plain standard error is 3 times too small and covers about half of the time.
  int hits = 0;
  for (uint64_t t = 0; t < 300; ++t) {
    const auto x = autoregressive(2047, 0.8, 0, t);
    double mean = 0;
    for (const double v : x) mean += v / 2047;
    hits += std::abs(mean) < 1.96 * spread(x) / std::sqrt(2047.0);
  }
  EXPECT_LT(hits, 220);
}

TEST(Bootstrap, WidthFollowsTheTheoryOfAnAutoregression) {
  // Long-run standard deviation of AR(1): 1 / (1 - phi). Half width = 1.96 * that / sqrt(n), within the 15% that an estimate
  // from about 256 blocks has (1 / sqrt(2 * 256) = 4% of standard error) and the bias of the blocks.
  const auto x = autoregressive(16383, 0.5, 0, 3);
  const Interval i = bootstrap_mean(x, {});
  EXPECT_NEAR((i.high - i.low) / 2, 1.96 * 2 / std::sqrt(16383.0), 0.15 * 1.96 * 2 / std::sqrt(16383.0));
}

TEST(Bootstrap, BlocksGrowWithDependence) {
  const auto weak = autoregressive(2047, 0.1, 0, 1);
  const auto strong = autoregressive(2047, 0.9, 0, 1);
  EXPECT_LT(block_length(weak), 32);
  EXPECT_GT(block_length(strong), 2 * block_length(weak));
  EXPECT_LE(block_length(strong), 2047 / 6);
}

TEST(Bootstrap, DependsOnSeedAndStreamOnly) {
  const auto x = autoregressive(3001, 0.4, 1, 9);
  const Interval a = bootstrap_mean(x, {.seed = 4, .stream = 2});
  const Interval b = bootstrap_mean(x, {.seed = 4, .stream = 2});
  const Interval c = bootstrap_mean(x, {.seed = 5, .stream = 2});
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  EXPECT_NE(a.low, c.low);
}

TEST(Bootstrap, DegenerateSeriesStayFinite) {
  EXPECT_EQ(bootstrap_mean({}, {}).count, 0);
  const std::vector<double> one = {2.0};
  const Interval i = bootstrap_mean(one, {.outer_spread = 0.5});
  EXPECT_EQ(i.mean, 2.0);
  EXPECT_NEAR(i.low, 2 - 0.98, 0.001);
  EXPECT_EQ(verdict_of(i), Verdict::kWorse);
  const std::vector<double> constant(100, -1.25);
  const Interval flat = bootstrap_mean(constant, {});
  EXPECT_EQ(flat.low, -1.25);
  EXPECT_EQ(flat.high, -1.25);
  for (size_t n = 2; n < 40; ++n) {
    const auto x = autoregressive(static_cast<int64_t>(n), 0.2, 0, n);
    const Interval few = bootstrap_mean(x, {});
    EXPECT_TRUE(std::isfinite(few.low) && std::isfinite(few.high)) << n;
    EXPECT_LE(few.low, few.mean);
    EXPECT_GE(few.high, few.mean);
  }
}

TEST(Verdict, OnlyAnIntervalClearOfZeroDecides) {
  EXPECT_EQ(verdict_of({.mean = -0.1, .low = -0.2, .high = -0.01}), Verdict::kBetter);
  EXPECT_EQ(verdict_of({.mean = 0.1, .low = 0.01, .high = 0.2}), Verdict::kWorse);
  EXPECT_EQ(verdict_of({.mean = -0.1, .low = -0.2, .high = 0.01}), Verdict::kTie);
  EXPECT_EQ(verdict_of({}), Verdict::kTie);
}

TEST(Verdict, PairingSeesWhatApartIsLost) {
  // Two settings on the same tokens: the text's own spread (3 nats) hides a difference of 0.05 unless they are paired.
  const auto text = autoregressive(4095, 0.2, 4, 21);
  Random random(3, 3);
  std::vector<double> a = text, b = text, delta(text.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] *= 3;
    b[i] = a[i] + 0.05 + 0.2 * random.normal();
    delta[i] = b[i] - a[i];
  }
  const Interval ia = bootstrap_mean(a, {}), ib = bootstrap_mean(b, {}), paired = bootstrap_mean(delta, {});
  EXPECT_LT(ib.low, ia.high);  // apart: overlapping
  EXPECT_EQ(verdict_of(paired), Verdict::kWorse);
}

TEST(Verdict, EqualSettingsTieAboutAsOftenAsTheyShould) {
  int ties = 0;
  for (uint64_t t = 0; t < 400; ++t) {
    const auto x = autoregressive(1023, 0.25, 0, 1000 + t);
    ties += verdict_of(bootstrap_mean(x, {.stream = t, .replicates = 500})) == Verdict::kTie;
  }
  EXPECT_NEAR(ties / 400.0, 0.95, 0.045);  // 4 standard errors of sqrt(.95 * .05 / 400) = 0.011
}

TEST(Fingerprint, IsFnv1a) {
  EXPECT_EQ(fingerprint(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fingerprint("a"), 0xaf63dc4c8601ec8cu);
}

}  // namespace
}  // namespace ropewalk
