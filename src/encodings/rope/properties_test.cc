// What rotation promises (RoFormer, arXiv:2104.09864), checked through the public functions, and the layout cases.
//
// Error of one rotated element, u = 2^-24: table entries u each, product and sum u each, so |error| <= 4 u (|x0| + |x1|) a.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

#include "base/random.h"
#include "encodings/rope/rules.h"
#include "ropewalk/rotary.h"

namespace ropewalk {
namespace {

constexpr double kU = 0x1p-24;

std::vector<float> draw(int n, uint64_t stream) {
  Random random(11, stream);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = static_cast<float>(random.normal());
  return x;
}

std::vector<float> turn(const RotarySchedule& s, std::vector<float> x, int64_t m) {
  const auto table = make_rotary_table(s, std::vector<int64_t>{m}).value();
  const auto view = heads_view(x.data(), 1, 1, static_cast<int>(x.size()));
  rotate(s, table, view, view).value();
  return x;
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}
double norm(const std::vector<float>& a) { return std::sqrt(dot(a, a)); }

const Pairing kPairings[] = {Pairing::kHalves, Pairing::kInterleaved};
const int64_t kFar = int64_t{1} << 30;

// R_m^T R_n = R_(n - m): scores depend on n - m alone, also at 2^30, 2^31 and below zero. Each rotated vector is off by at most
// 4 u sqrt(2) of its norm, so a score by 2 * 4 sqrt(2) u |q| |k|, on both sides of the comparison.
TEST(Properties, ScoresDependOnTheDistanceAlone) {
  for (const Pairing pairing : kPairings) {
    const auto s = make_rotary_schedule(500000, 70, 74, pairing).value();
    const auto q = draw(74, 1), k = draw(74, 2);
    const double tolerance = 16 * std::sqrt(2) * kU * norm(q) * norm(k);
    for (const int64_t d : {0, 1, 77, 4095, 1 << 20}) {
      const double want = dot(turn(s, q, d), turn(s, k, 0));
      for (const int64_t n :
           {int64_t{-5}, int64_t{1} << 20, kFar, kFar + 12345, (int64_t{1} << 31) - (1 << 20), -(int64_t{1} << 31)}) {
        EXPECT_NEAR(dot(turn(s, q, n + d), turn(s, k, n)), want, tolerance) << n << " " << d;
      }
    }
  }
}

TEST(Properties, RotationsComposeAndInvert) {
  for (const Pairing pairing : kPairings) {
    const auto s = make_rotary_schedule(10000, 34, 34, pairing).value();
    const auto x = draw(34, 3);
    const auto back = turn(s, turn(s, x, kFar), -kFar);
    const auto sum = turn(s, x, kFar - 999), twice = turn(s, turn(s, x, kFar), -999);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(back[i]), static_cast<double>(x[i]), 8 * kU * norm(x));
      EXPECT_NEAR(static_cast<double>(twice[i]), static_cast<double>(sum[i]), 12 * kU * norm(x));
    }
  }
}

TEST(Properties, NormsAreKeptAndAmplitudeScalesThem) {
  for (const Pairing pairing : kPairings) {
    auto s = make_rotary_schedule(10000, 128, 128, pairing).value();
    const auto x = draw(128, 4);
    for (const int64_t m : {int64_t{0}, int64_t{1}, int64_t{1} << 20, kFar}) {
      s.amplitude = 1;
      EXPECT_NEAR(norm(turn(s, x, m)), norm(x), 4 * std::sqrt(2) * kU * norm(x));
      s.amplitude = 1.25;
      EXPECT_NEAR(norm(turn(s, x, m)), 1.25 * norm(x), 5 * std::sqrt(2) * kU * norm(x));
    }
  }
}

// Three equal forms: complex product, block-diagonal matrix, two elementwise products (the library's).
TEST(Properties, ThreeEqualForms) {
  const int width = 22;
  for (const Pairing pairing : kPairings) {
    const auto s = make_rotary_schedule(10000, width, width, pairing).value();
    const auto x = draw(width, 5);
    const int64_t m = 12345;
    const auto y = turn(s, x, m);
    std::vector<std::vector<double>> matrix(width, std::vector<double>(width, 0));
    for (size_t i = 0; i < width / 2; ++i) {
      const size_t a = pairing == Pairing::kHalves ? i : 2 * i, b = pairing == Pairing::kHalves ? i + width / 2 : 2 * i + 1;
      const double angle = static_cast<double>(m) * s.inv_freq[i];
      const auto z = std::complex<double>(static_cast<double>(x[a]), static_cast<double>(x[b])) * std::polar(1.0, angle);
      EXPECT_NEAR(static_cast<double>(y[a]), z.real(), 4 * kU * norm(x));
      EXPECT_NEAR(static_cast<double>(y[b]), z.imag(), 4 * kU * norm(x));
      matrix[a][a] = matrix[b][b] = std::cos(angle);
      matrix[a][b] = -std::sin(angle);
      matrix[b][a] = std::sin(angle);
    }
    for (size_t r = 0; r < width; ++r) {
      double sum = 0;
      for (size_t c = 0; c < width; ++c) sum += matrix[r][c] * static_cast<double>(x[c]);
      EXPECT_NEAR(static_cast<double>(y[r]), sum, 4 * kU * norm(x));
    }
  }
}

// RoFormer 3.4.3: (2/D) sum_j |S_j|, S_j = sum_(i<j) exp(i d f_i), D = 128. The values are given to two decimals.
TEST(Properties, LongRangeDecay) {
  const auto s = make_rotary_schedule(10000, 128, 128, Pairing::kHalves).value();
  const std::vector<std::pair<int64_t, double>> want = {{0, 32.50},  {1, 31.54},   {5, 20.85},  {10, 17.95}, {20, 15.24},
                                                        {50, 12.63}, {100, 10.23}, {150, 7.59}, {200, 7.24}, {250, 6.55}};
  for (const auto& [d, bound] : want) {
    const auto table = make_rotary_table(s, std::vector<int64_t>{d}).value();
    std::complex<double> partial = 0;
    double sum = 0;
    for (size_t i = 0; i < 64; ++i) {
      partial += std::complex<double>(static_cast<double>(table.cos[i]), static_cast<double>(table.sin[i]));
      sum += std::abs(partial);
    }
    EXPECT_NEAR(sum / 64, bound, 0.005) << d;
  }
}

// ---- layout cases

void expect_turned(const RotarySchedule& s, const std::vector<float>& x, int64_t m, const std::vector<double>& want) {
  const auto y = turn(s, x, m);
  ASSERT_EQ(y.size(), want.size());
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(static_cast<double>(y[i]), want[i], 8 * kU * norm(x)) << i;
}

TEST(Layouts, lay_two_pairings) {
  const std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto pairs = make_rotary_schedule(10000, 8, 8, Pairing::kInterleaved).value();
  const auto halves = make_rotary_schedule(10000, 8, 8, Pairing::kHalves).value();
  expect_turned(pairs, x, 0, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_turned(pairs, x, 5,
                {0.9589242746631385, 0.28366218546322625, 0.31688850796813645, 3.5915987628795243, 3.7451051952264733,
                 5.193667979057545, 5.964925145989401, 7.029912375182448});
  expect_turned(halves, x, 1,
                {-3.365883939231586, 0.495837082043885, 1.9399010008283306, 2.9929985011667917, 2.161209223472559,
                 5.074854243036957, 6.019699669168325, 7.002996499500291});
  expect_turned(halves, x, 5,
                {3.835697098652554, -1.5195451311306423, 1.6976255051658624, 2.964962645911276, 1.134648741852905,
                 4.867338348056067, 6.092459900911154, 7.014912437682369});
}

TEST(Layouts, lay_amplitude_on_rotated_slice_only) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  auto s = make_partial_schedule(10000, 8, 0.5, Pairing::kHalves, SliceEnd::kLast).value();
  s.amplitude = 0.5;
  expect_turned(s, x, 2, {1, 2, 3, 4, -4.222908085257742, 2.919405353226401, 0.8167296391492059, 4.05919602674631});
  s.pairing = Pairing::kInterleaved;
  expect_turned(s, x, 2, {1, 2, 3, 4, -3.768259371844901, 1.024803057422777, 3.41930535655969, 4.069195360092977});
}

TEST(Layouts, lay_partial_applied) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  expect_turned(make_partial_schedule(10000, 8, 0.5, Pairing::kHalves).value(), x, 700,
                {-2.4710158959708695, -1.120141886188547, -1.9733424542788516, 4.329582214810797, 5, 6, 7, 8});
  expect_turned(make_partial_schedule(10000, 8, 0.5, Pairing::kInterleaved).value(), x, 700,
                {-1.9270453726074936, -1.1342381283981093, -0.36623963184524244, 4.986568813529586, 5, 6, 7, 8});
}

TEST(Layouts, lay_width_not_a_power_of_two) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  expect_turned(make_rotary_schedule(10000, 6, 10, Pairing::kHalves).value(), x, 11,
                {4.004386524190864, -0.6984664292274131, 2.8569782111389435, -0.9822874145985003, 5.339676455295987,
                 6.069404872067551, 7, 8, 9, 10});
  expect_turned(make_rotary_schedule(10000, 6, 10, Pairing::kInterleaved).value(), x, 11,
                {2.0044061110894575, -0.9911388105746018, 0.6626761388675574, 4.95589147732026, 4.8564166051754825,
                 6.116797998706173, 7, 8, 9, 10});
}

TEST(Layouts, lay_inverse_rotation) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto s = make_partial_schedule(10000, 8, 0.5, Pairing::kInterleaved, SliceEnd::kLast).value();
  expect_turned(s, x, 6, {1, 2, 3, 4, 6.477344422445386, 4.363944228907567, 6.507691727710872, 8.405352364837746});
  expect_turned(s, turn(s, x, 6), -6, {1, 2, 3, 4, 5, 6, 7, 8});
}

TEST(Layouts, lay_sense_of_rotation) {
  const auto s = make_rotary_schedule(10000, 4, 4, Pairing::kHalves).value();
  const std::vector<float> q = {1, 2, 3, 4}, k = {2, -1, 1, 3};
  expect_turned(s, q, 7, {-1.2170575418130627, 1.7153306111564282, 2.918693361748703, 4.130089695688183});
  expect_turned(s, q, -7, {2.724862050499672, 2.2748733898566904, 1.6047201643111249, 3.850318306338053});
  const double tolerance = 16 * kU * norm(q) * norm(k);
  EXPECT_NEAR(dot(turn(s, q, 7), turn(s, k, 2)), 16.70022659728827, tolerance);
  EXPECT_NEAR(dot(turn(s, q, -7), turn(s, k, -2)), 6.111400465243318, tolerance);
}

// mro-applied's idea, with t, h and w all different: each plane turns by its own axis.
TEST(Layouts, AxesApplied) {
  auto s = make_rotary_schedule(10000, 8, 8, Pairing::kHalves).value();
  s.axis = {0, 0, 1, 2};
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto y = x;
  const auto table = make_rotary_table(s, std::vector<int64_t>{2, 5, 9}).value();
  rotate(s, table, heads_view(x.data(), 1, 1, 8), heads_view(x.data(), 1, 1, 8)).value();
  const double position[] = {2, 2, 5, 9};
  for (size_t i = 0; i < 4; ++i) {
    const double angle = position[i] * s.inv_freq[i];
    const double a = static_cast<double>(y[i]), b = static_cast<double>(y[i + 4]);
    EXPECT_NEAR(static_cast<double>(x[i]), a * std::cos(angle) - b * std::sin(angle), 4 * kU * (a + b));
    EXPECT_NEAR(static_cast<double>(x[i + 4]), b * std::cos(angle) + a * std::sin(angle), 4 * kU * (a + b));
  }
}

}  // namespace
}  // namespace ropewalk
