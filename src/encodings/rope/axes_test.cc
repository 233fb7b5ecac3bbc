// Positions with several axes.
#include "ropewalk/axes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ropewalk {
namespace {

using ::testing::HasSubstr;

std::vector<double> turned(const RotarySchedule& schedule, const std::vector<int64_t>& position, std::vector<float> x) {
  const auto table = make_rotary_table(schedule, position).value();
  const int dim = static_cast<int>(x.size());
  rotate(schedule, table, heads_view(x.data(), 1, 1, dim), heads_view(x.data(), 1, 1, dim)).value();
  return {x.begin(), x.end()};
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

RotarySchedule with_sections(double theta, int dim, const std::vector<int>& sections, bool turns = false) {
  RotarySchedule schedule = make_rotary_schedule(theta, dim, dim, Pairing::kHalves).value();
  schedule.axis = axis_of_planes(sections, dim / 2, turns).value();
  return schedule;
}

TEST(Axes, mro_contiguous_sections) {
  for (const std::vector<int>& sections : {std::vector<int>{16, 24, 24}, std::vector<int>{16, 24, 24, 0}}) {
    const RotarySchedule schedule = with_sections(1e6, 128, sections);
    const int64_t position[] = {5, 7, 11};
    const std::pair<size_t, double> angles[] = {{0, 5.0},
                                                {1, 4.029210938807409},
                                                {15, 0.1962094879242268},
                                                {16, 0.22135943621178655},
                                                {39, 0.0015447138483592128},
                                                {40, 0.001956107351042815},
                                                {63, 1.3650315368268915e-05}};
    for (const auto& [plane, angle] : angles) {
      const auto m = static_cast<double>(position[schedule.axis[plane]]);
      EXPECT_NEAR(m * schedule.inv_freq[plane], angle, 1e-12 * angle) << plane;
    }
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(schedule.axis[i], i < 16 ? 0 : i < 40 ? 1 : 2);
  }
}

TEST(Axes, mro_applied) {
  const RotarySchedule schedule = with_sections(1e4, 8, {2, 1, 1});
  expect_near(turned(schedule, {2, 5, 9}, {1, 2, 3, 4, 5, 6, 7, 8}),
              {-4.962633970675551, 0.768117170912116, 2.6463965962901503, 3.9278389730895604, -1.1714367559100303,
               6.277738128637572, 7.141189330576799, 8.035675516188963},
              4e-6);
  expect_near(turned(schedule, {9, 5, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
              {-2.9717226880934597, -3.4567415212235715, 2.6463965962901503, 3.9839920106693314, -4.143532824181628,
               5.296313628878954, 7.141189330576799, 8.007983994672001},
              4e-6);
}

TEST(Axes, mro_text_is_plain_rotation) {
  const std::vector<double> want = {3.1303688556760294, -0.49438806584613276, 2.717674980676495, 3.9679680853759316,
                                    -4.025020599625988, 6.305202648634611,    7.114368749186748, 8.015935957418701};
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const RotarySchedule plain = make_rotary_schedule(1e4, 8, 8, Pairing::kHalves).value();
  expect_near(turned(with_sections(1e4, 8, {2, 1, 1}), {4, 4, 4}, x), want, 4e-6);
  EXPECT_EQ(turned(with_sections(1e4, 8, {2, 1, 1}), {4, 4, 4}, x), turned(plain, {4}, x));
}

// lay-mrope-flag-is-not-a-pairing: axes in turns, the pairing stays halves.
TEST(Axes, lay_mrope_flag_is_not_a_pairing) {
  expect_near(turned(with_sections(1e4, 8, {2, 1, 1}, true), {3, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7}),
              {-0.5644800322394689, -0.5222645441810918, 1.819127066283001, 2.978986531510111, -3.9599699864017817,
               5.07220265228937, 6.0572912028989165, 7.0089684865236315},
              4e-6);
  // Qwen3-VL's [24, 20, 20]: t h w t h w ..., and time alone from plane 60 on.
  const auto axis = axis_of_planes(std::vector<int>{24, 20, 20}, 64, true).value();
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(axis[i], i < 60 ? i % 3 : 0) << i;
}

TEST(Axes, mro_image_positions) {
  const auto first = axis_positions(std::vector<AxisPart>{{.text = 3}, {.rows = 2, .cols = 3}, {.text = 2}}).value();
  EXPECT_EQ(first.positions, (std::vector<int64_t>{0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7, 0, 1, 2, 3, 3, 3,
                                                   4, 4, 4, 6, 7, 0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7}));
  EXPECT_EQ(first.next, 8);
  EXPECT_EQ(first.delta, -3);
  const auto second = axis_positions(std::vector<AxisPart>{
                                         {.text = 1}, {.rows = 4, .cols = 2}, {.text = 1}, {.rows = 1, .cols = 1}, {.text = 2}})
                          .value();
  EXPECT_EQ(second.positions, (std::vector<int64_t>{0, 1, 1, 1, 1, 1, 1, 1, 1, 5, 6, 7, 8, 0, 1, 1, 2, 2, 3, 3,
                                                    4, 4, 5, 6, 7, 8, 0, 1, 2, 1, 2, 1, 2, 1, 2, 5, 6, 7, 8}));
  EXPECT_EQ(second.next, 9);
  EXPECT_EQ(second.delta, -4);
}

TEST(Axes, mro_delta_per_sequence) {
  const auto image = axis_positions(std::vector<AxisPart>{{.text = 3}, {.rows = 2, .cols = 3}, {.text = 2}}).value();
  const auto text = axis_positions(std::vector<AxisPart>{{.text = 5}}).value();
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(11 + i + image.delta, 8 + i);
    EXPECT_EQ(5 + i + text.delta, 5 + i);
  }
  // The next part goes on there.
  EXPECT_EQ(axis_positions(std::vector<AxisPart>{{.text = 3}}, image.next).value().positions,
            (std::vector<int64_t>{8, 9, 10, 8, 9, 10, 8, 9, 10}));
}

TEST(Axes, mro_two_axes_height_first) {
  const RotarySchedule schedule = make_rotary_2d(1e4, 8, true).value();
  const int64_t position[] = {2, 5};
  const double want[] = {2.0, 0.02, 0.5, 0.005};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(static_cast<double>(position[schedule.axis[i]]) * schedule.inv_freq[i], want[i], 1e-12);
  const RotarySchedule same = make_rotary_2d(1e4, 8, false).value();
  const double frequencies[] = {1, 0.01, 1, 0.01};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(same.inv_freq[i], frequencies[i], 1e-15);
}

TEST(Axes, mro_grid_order) {
  const auto grid = axis_positions(std::vector<AxisPart>{{.rows = 2, .cols = 3}}).value();
  EXPECT_EQ(grid.positions, (std::vector<int64_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1, 2, 0, 1, 2}));
}

TEST(Axes, mro_far_position) {
  const RotarySchedule schedule = with_sections(1e6, 128, {16, 24, 24});
  const auto table = make_rotary_table(schedule, std::vector<int64_t>{300000, 300017, 300123}).value();
  EXPECT_NEAR(static_cast<double>(table.cos[0]), -0.9942521687048723, 6e-8);
  EXPECT_NEAR(static_cast<double>(table.cos[20]), -0.027245841107815968, 2e-9);
  EXPECT_NEAR(static_cast<double>(table.cos[63]), 0.9314444260517667, 6e-8);
  EXPECT_NEAR(300017 * schedule.inv_freq[20], 4000.79099513344, 1e-9);
}

TEST(Axes, WhatIsWrongIsNamed) {
  EXPECT_THAT(axis_of_planes(std::vector<int>{16, 24, 23}, 64, false).error().message(),
              testing::AllOf(HasSubstr("64"), HasSubstr("63")));
  EXPECT_FALSE(axis_of_planes(std::vector<int>{70, -6}, 64, false));
  EXPECT_FALSE(axis_of_planes(std::vector<int>{}, 0, false));
  EXPECT_FALSE(axis_of_planes(std::vector<int>{32, 32}, 64, true));
  EXPECT_FALSE(axis_positions(std::vector<AxisPart>{{.text = 1, .rows = 2, .cols = 2}}));
  EXPECT_FALSE(axis_positions(std::vector<AxisPart>{{.rows = 2}}));
  const auto huge = axis_positions(std::vector<AxisPart>{{.rows = int64_t{1} << 30, .cols = int64_t{1} << 30}});
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code(), ErrorCode::kTooLarge);
  EXPECT_FALSE(make_rotary_2d(1e4, 6, true));
}

}  // namespace
}  // namespace ropewalk
