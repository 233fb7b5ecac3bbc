#include "encodings/rope/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ropewalk {
namespace {

using ::testing::HasSubstr;
using Rows = std::vector<int64_t>;

Rows rows(int heads, int dim, int rotated, Pairing to) { return rows_for_pairing(heads, dim, {0, rotated}, to).value(); }

std::vector<double> turned(int dim, Pairing pairing, int64_t m, std::vector<float> x) {
  const auto schedule = make_rotary_schedule(1e4, dim, dim, pairing).value();
  const auto table = make_rotary_table(schedule, std::vector<int64_t>{m}).value();
  rotate(schedule, table, heads_view(x.data(), 1, 1, dim), heads_view(x.data(), 1, 1, dim)).value();
  return {x.begin(), x.end()};
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(Layout, lay_permute_rows) {
  EXPECT_EQ(rows(2, 8, 8, Pairing::kInterleaved), (Rows{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15}));
  EXPECT_EQ(rows(2, 8, 8, Pairing::kHalves), (Rows{0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15}));
  EXPECT_EQ(rows(1, 6, 4, Pairing::kInterleaved), (Rows{0, 2, 1, 3, 4, 5}));
  EXPECT_EQ(rows(4, 4, 4, Pairing::kInterleaved), (Rows{0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15}));
  EXPECT_EQ(rows(2, 4, 4, Pairing::kInterleaved), (Rows{0, 2, 1, 3, 4, 6, 5, 7}));
  // The values never move: there is nothing to rotate. A norm weight of a head moves like its rows.
  EXPECT_EQ(rows(2, 4, 0, Pairing::kInterleaved), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
  std::vector<int> values;
  for (const int64_t row : rows(1, 8, 8, Pairing::kInterleaved)) values.push_back(static_cast<int>(row) + 1);
  EXPECT_EQ(values, (std::vector<int>{1, 5, 2, 6, 3, 7, 4, 8}));
  // There and back.
  const Rows there = rows(3, 10, 6, Pairing::kInterleaved), back = rows(3, 10, 6, Pairing::kHalves);
  for (size_t r = 0; r < there.size(); ++r) EXPECT_EQ(there[static_cast<size_t>(back[r])], static_cast<int64_t>(r));
  EXPECT_FALSE(rows_for_pairing(1, 8, {0, 5}, Pairing::kHalves));
  EXPECT_FALSE(rows_for_pairing(1, 8, {6, 4}, Pairing::kHalves));
  EXPECT_FALSE(rows_for_pairing(0, 8, {0, 4}, Pairing::kHalves));
}

TEST(Layout, lay_weights_and_kernel_together) {
  const double w[8][2] = {{1, -3}, {2, -2}, {3, 1}, {4, -1}, {5, -1}, {6, 1}, {7, -2}, {8, -3}};
  const double b[8] = {-4, -3, -2, -1, 0, 1, 2, 3};
  std::vector<float> projected, permuted;
  for (int r = 0; r < 8; ++r) projected.push_back(static_cast<float>(w[r][0] * 1 + w[r][1] * -2 + b[r]));
  const Rows order = rows(1, 8, 8, Pairing::kInterleaved);
  for (const int64_t row : order) permuted.push_back(projected[static_cast<size_t>(row)]);
  const std::vector<double> halves = {-3.957817546220407, 1.3884084340701202, -1.389491536381431, 4.948977576516841,
                                      -6.506587452023517, 5.663243065612049,  12.964154938534342, 17.014923477557385};
  const auto by_halves = turned(8, Pairing::kHalves, 3, projected), by_pairs = turned(8, Pairing::kInterleaved, 3, permuted);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(by_halves[i], halves[i], 4e-6);
    EXPECT_EQ(by_pairs[i], by_halves[static_cast<size_t>(order[i])]);
  }
}

TEST(Layout, lay_two_layouts_in_one_layer) {
  const std::vector<float> q = {1, 2, 3, 4}, k = {2, -1, 1, 3};
  EXPECT_NEAR(dot(turned(4, Pairing::kInterleaved, 7, q), turned(4, Pairing::kInterleaved, 2, k)), 20.02577112559358, 1e-5);
  EXPECT_NEAR(dot(turned(4, Pairing::kHalves, 7, q), turned(4, Pairing::kHalves, 2, k)), 16.70022659728827, 1e-5);
}

// The position follows the token, whichever of the axes of heads and tokens comes first in memory.
TEST(Layout, lay_head_and_token_axes) {
  const std::vector<float> bthd = {1, 2, 3, 4, 5, 6, 7, 8, -1, 0, 2, 1, 3, -2, 1, 0};
  const std::vector<float> bhtd = {1, 2, 3, 4, -1, 0, 2, 1, 5, 6, 7, 8, 3, -2, 1, 0};
  const double want[2][2][4] = {{{-3.1440391170241875, 1.9196053465598233, -0.33914308281574546, 4.039197360052977},
                                 {-8.445816170515483, 5.838810706452802, 1.6334592782984119, 8.11839205349262}},
                                {{0.08689329140116385, -0.08987854919801105, -2.2343790090111106, 0.9959527330119943},
                                 {-3.1455092708957877, -1.9919054660239885, 0.32522519384059273, -0.1797570983960221}}};
  const auto schedule = make_rotary_schedule(1e4, 4, 4, Pairing::kHalves).value();
  const auto table = make_rotary_table(schedule, std::vector<int64_t>{2, 9}).value();
  for (const bool heads_first : {false, true}) {
    std::vector<float> x = heads_first ? bhtd : bthd;
    HeadsView view = heads_view(x.data(), 2, 2, 4);  // [B][T][H D] flat is the same view
    if (heads_first) {
      view.token_stride = 4;
      view.head_stride = 8;
    }
    ASSERT_TRUE(rotate(schedule, table, view, view));
    for (int64_t t = 0; t < 2; ++t) {
      for (int h = 0; h < 2; ++h) {
        for (int i = 0; i < 4; ++i)
          EXPECT_NEAR(static_cast<double>(x[static_cast<size_t>(t * view.token_stride + h * view.head_stride + i)]),
                      want[t][h][i], 4e-6);
      }
    }
  }
}

TEST(Layout, lay_matrix_form) {
  const double c0 = -0.9899924966004454, s0 = 0.1411200080598672, c1 = 0.9995500337489875, s1 = 0.02999550020249566;
  const double pairs[4][4] = {{c0, -s0, 0, 0}, {s0, c0, 0, 0}, {0, 0, c1, -s1}, {0, 0, s1, c1}};
  const double halves[4][4] = {{c0, 0, -s0, 0}, {0, c1, 0, -s1}, {s0, 0, c0, 0}, {0, s1, 0, c1}};
  for (size_t column = 0; column < 4; ++column) {
    std::vector<float> unit(4, 0.0F);
    unit[column] = 1;
    const auto a = turned(4, Pairing::kInterleaved, 3, unit), b = turned(4, Pairing::kHalves, 3, unit);
    for (size_t row = 0; row < 4; ++row) {
      EXPECT_NEAR(a[row], pairs[row][column], 6e-8);
      EXPECT_NEAR(b[row], halves[row][column], 6e-8);
    }
  }
}

// score[h][n] = scale (q_nope_h . k_nope_hn + R(6) q_pe_h . R(n) k_pe_n): the rotary key is rotated once and has no heads.
TEST(Layout, lay_shared_rotary_key) {
  const double q_nope[2][2] = {{1, 2}, {3, -1}}, k_nope[2][2][2] = {{{2, 1}, {0, 1}}, {{1, 1}, {1, -2}}};
  const std::vector<float> q_pe[2] = {{1, 0, 2, 1}, {0, 1, -1, 2}}, k_pe[2] = {{1, 1, 0, 2}, {2, 0, 1, -1}};
  const int64_t k_pos[2] = {2, 5};
  const double want[2][2] = {{2.373955716948476, 2.0252775560752223}, {3.00999031635748, 0.15360409790002225}};
  for (size_t h = 0; h < 2; ++h) {
    for (size_t n = 0; n < 2; ++n) {
      // k_nope is [head][key][dim].
      const double content = q_nope[h][0] * k_nope[h][n][0] + q_nope[h][1] * k_nope[h][n][1];
      const double rotary =
          dot(turned(4, Pairing::kInterleaved, 6, q_pe[h]), turned(4, Pairing::kInterleaved, k_pos[n], k_pe[n]));
      EXPECT_NEAR(0.5 * (content + rotary), want[h][n], 1e-6) << h << n;
    }
  }
}

Rows without(int64_t layers, const Rows& flags, int64_t interval) {
  Rows list;
  const auto rotating = rotating_layers(layers, flags, interval).value();
  for (size_t i = 0; i < rotating.size(); ++i) {
    if (!rotating[i]) list.push_back(static_cast<int64_t>(i));
  }
  return list;
}

TEST(Layers, lyr_no_rope_list) {
  Rows flags;
  for (int64_t i = 0; i < 36; ++i) flags.push_back(i % 4 == 3 ? 0 : 1);
  EXPECT_EQ(without(36, flags, 4), (Rows{3, 7, 11, 15, 19, 23, 27, 31, 35}));
}

TEST(Layers, lyr_no_rope_interval) {
  EXPECT_EQ(without(36, {}, 4), (Rows{3, 7, 11, 15, 19, 23, 27, 31, 35}));
  EXPECT_EQ(without(10, {}, 4), (Rows{3, 7}));
  EXPECT_EQ(without(7, {1, 0, 1, 1, 0, 1, 1}, 4), (Rows{1, 4}));
  EXPECT_EQ(without(5, {}, 0), Rows{});
  EXPECT_THAT(rotating_layers(3, Rows{1, 1}, 0).error().message(), HasSubstr("no_rope_layers"));
  EXPECT_THAT(rotating_layers(2, Rows{1, 4}, 0).error().message(), HasSubstr("layer 1"));
}

}  // namespace
}  // namespace ropewalk
