// The scaling rules against values computed from the definitions in double or better (cases sch-*). Relative tolerance 1e-12:
// the rules take a few double operations and one or two pow, each within 1e-15, and exponents of at most 20.
#include "encodings/rope/rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace ropewalk {
namespace {

constexpr double kTolerance = 1e-12;

RotarySchedule plain(double theta, int width) { return make_rotary_schedule(theta, width, width, Pairing::kHalves).value(); }

void expect_relative(double got, double want) {
  EXPECT_LE(std::abs(got - want), kTolerance * std::abs(want)) << got << " " << want;
}

void expect_planes(const RotarySchedule& s, const std::map<size_t, double>& want) {
  for (const auto& [plane, f] : want) {
    SCOPED_TRACE(plane);
    expect_relative(s.inv_freq.at(plane), f);
  }
}

RotarySchedule yarn(double theta, int width, int64_t trained, YarnParams params) {
  return scale_yarn(plain(theta, width), params, trained).value();
}
YarnRamp ramp(double theta, int width, int64_t trained, YarnParams params) {
  return yarn_ramp(plain(theta, width), params, trained).value();
}
YarnParams factor(double s) {
  YarnParams p;
  p.factor = s;
  return p;
}

TEST(Rules, sch_linear) {
  const auto s = scale_linear(plain(10000, 8), 4).value();
  expect_planes(s, {{0, 0.25}, {1, 0.025}, {2, 0.0025}, {3, 0.00025}});
}

TEST(Rules, sch_ntk_static) {
  const auto s = scale_ntk(plain(10000, 128), 4).value();
  expect_relative(s.theta, 40889.94243248622);
  expect_planes(s, {{0, 1.0}, {1, 0.8471171851512068}, {32, 0.004945289840680367}, {63, 2.8869549617236455e-05}});
  expect_relative(plain(10000, 128).inv_freq[63] / s.inv_freq[63], 4);
}

// alpha is a constant: the same at every length, and never the dynamic rule.
TEST(Rules, sch_ntk_alpha_constant) {
  const auto s = scale_ntk(plain(10000, 128), 1000).value();
  expect_relative(s.theta, 11158839.925077485);
  expect_planes(s, {{1, 0.7760343630469744}, {63, 1.1547819846894582e-07}});
}

TEST(Rules, sch_dynamic_lengths) {
  const std::map<int64_t, double> want = {{1, 10000},
                                          {2047, 10000},
                                          {2048, 10000},
                                          {2049, 10009.920711785857},
                                          {4096, 30527.7367488067},
                                          {8192, 72195.86008650939}};
  for (const auto& [length, theta] : want) {
    const auto s = scale_dynamic_ntk(plain(10000, 128), 2, 2048, length).value();
    expect_relative(s.theta, theta);
    expect_planes(s, {{0, 1}, {63, std::pow(theta, -126.0 / 128)}});
  }
}

TEST(Rules, sch_dynamic_exponent_and_factor_one) {
  const auto partial = make_partial_schedule(10000, 128, 0.5, Pairing::kHalves).value();
  expect_relative(scale_dynamic_ntk(partial, 4, 4096, 8192).value().theta, 52664.434336364524);
  expect_relative(scale_dynamic_ntk(plain(10000, 128), 1, 2048, 2048).value().theta, 10000);
  expect_relative(scale_dynamic_ntk(plain(10000, 128), 1, 2048, 4096).value().theta, 20221.261689737912);
}

TEST(Rules, sch_gradient_base) {
  expect_relative(scale_gradient_base(plain(500000, 128), 8192, 16384).value().theta, 1776948.0528540818);
  expect_relative(scale_gradient_base(plain(10000, 128), 4096, 8192).value().theta, 26784.031847371276);
  const auto s = scale_gradient_base(plain(10000, 128), 4096, 12288).value();
  expect_relative(s.theta, 47661.45979906888);
  expect_planes(s, {{0, 1}, {32, 1 / std::sqrt(47661.45979906888)}});
}

TEST(Rules, sch_yarn_basic) {
  const auto r = ramp(10000, 128, 4096, factor(16));
  expect_relative(r.raw_low, 20.944481620636054);
  expect_relative(r.raw_high, 45.02688127375455);
  EXPECT_EQ(r.low, 20);
  EXPECT_EQ(r.high, 46);
  const auto s = yarn(10000, 128, 4096, factor(16));
  expect_planes(s, {{0, 1.0},
                    {20, 0.05623413251903491},
                    {21, 0.046940859997959404},
                    {33, 0.004600435467850347},
                    {45, 0.00015177160473182493},
                    {46, 8.334508951020775e-05},
                    {63, 7.217387404309114e-06}});
  expect_relative(s.amplitude, 1.2772588722239782);
}

TEST(Rules, sch_yarn_high_bound_past_last_plane) {
  const auto r = ramp(10000, 64, 131072, factor(4));
  expect_relative(r.raw_low, 22.513440636877274);
  expect_relative(r.raw_high, 34.55464046343652);
  EXPECT_EQ(r.low, 22);
  EXPECT_EQ(r.high, 35);
  expect_planes(yarn(10000, 64, 131072, factor(4)),
                {{22, 0.0017782794100389228}, {25, 0.0006201048269479923}, {31, 6.411160731554442e-05}});
}

TEST(Rules, sch_yarn_low_bound) {
  const auto r = ramp(10000, 64, 128, factor(4));
  expect_relative(r.raw_low, -1.5689590162412212);
  EXPECT_EQ(r.low, 0);
  EXPECT_EQ(r.high, 11);
  expect_planes(yarn(10000, 64, 128, factor(4)), {{0, 1.0},
                                                  {1, 0.698765058696152},
                                                  {5, 0.15629508514588183},
                                                  {10, 0.017892678528783835},
                                                  {11, 0.010542412585714556},
                                                  {31, 3.33380358040831e-05}});
  // Both bounds clamp to 0: a step, and no division by zero.
  expect_planes(yarn(10000, 64, 6, factor(4)), {{0, 1.0}, {1, 0.18747355233311397}, {31, 3.33380358040831e-05}});
}

TEST(Rules, sch_yarn_factor_outside_power) {
  const auto r = ramp(10000, 64, 4096, factor(4));
  EXPECT_EQ(r.low, 10);
  EXPECT_EQ(r.high, 23);
  expect_planes(yarn(10000, 64, 4096, factor(4)), {{10, 0.05623413251903491},
                                                   {16, 0.006538461538461538},
                                                   {22, 0.0005471628953965916},
                                                   {23, 0.000333380358040831},
                                                   {31, 3.33380358040831e-05}});
}

TEST(Rules, sch_yarn_amplitude) {
  const std::map<double, double> want = {{1, 1.0},
                                         {2, 1.0693147180559945},
                                         {4, 1.138629436111989},
                                         {8, 1.2079441541679836},
                                         {16, 1.2772588722239782},
                                         {32, 1.3465735902799727},
                                         {40, 1.3688879454113936},
                                         {64, 1.4158883083359672}};
  for (const auto& [s, amplitude] : want) expect_relative(yarn(10000, 64, 4096, factor(s)).amplitude, amplitude);
  for (const double given : {1.0, 0.5}) {
    auto p = factor(64);
    p.attention_factor = given;
    EXPECT_EQ(yarn(10000, 64, 4096, p).amplitude, given);
  }
}

YarnParams mscale(double s, double mscale, double all_dim) {
  auto p = factor(s);
  p.mscale = mscale;
  p.mscale_all_dim = all_dim;
  return p;
}

TEST(Rules, sch_yarn_mscale_pair) {
  expect_relative(yarn(10000, 64, 4096, mscale(16, 1, 1)).amplitude, 1);
  expect_relative(yarn(10000, 64, 4096, mscale(40, 1, 0.707)).amplitude, 1.0857263992561357);
  expect_relative(yarn(10000, 64, 4096, mscale(40, 0.707, 1)).amplitude, 0.9210423553163399);
  expect_relative(yarn(10000, 64, 4096, mscale(40, 0.707, 0.707)).amplitude, 1);
}

TEST(Rules, sch_mla_softmax_multiplier) {
  const auto a = yarn(10000, 64, 4096, mscale(40, 0.707, 0.707));
  expect_relative(a.amplitude, 1);
  expect_relative(a.softmax_multiplier, 1.5896261651208734);
  expect_relative(a.softmax_multiplier / std::sqrt(192), 0.1147213867929261);
  const auto b = yarn(10000, 64, 4096, mscale(40, 1, 1));
  expect_relative(b.softmax_multiplier, 1.8738542070926265);
  expect_relative(b.softmax_multiplier / std::sqrt(192), 0.1352337788608801);
}

TEST(Rules, sch_yarn_amplitude_pinned_to_one) {
  auto p = factor(16);
  p.attention_factor = 1.0;
  const auto r = ramp(160000, 64, 65536, p);
  EXPECT_EQ(r.low, 15);
  EXPECT_EQ(r.high, 25);
  const auto s = yarn(160000, 64, 65536, p);
  EXPECT_EQ(s.amplitude, 1);
  expect_planes(s, {{1, 0.6876560219336321}, {18, 0.0008496897268387908}, {31, 5.680529036909976e-07}});
}

// YaRN takes no length in use: the schedule cannot differ between L = 16 and beyond.
TEST(Rules, sch_yarn_on_at_every_length) {
  const auto s = yarn(10000, 128, 4096, factor(4));
  expect_relative(s.amplitude, 1.138629436111989);
  expect_planes(s, {{0, 1.0}, {32, 0.006538461538461538}, {46, 0.000333380358040831}, {63, 2.8869549617236455e-05}});
}

TEST(Rules, sch_yarn_betas) {
  struct Variant {
    double fast, slow, raw_low, raw_high, low, high;
    std::map<size_t, double> planes;
  };
  const Variant variants[] = {{32,
                               1,
                               23.5959476083381,
                               39.6508807104171,
                               23,
                               40,
                               {{24, 0.005375321490790102}, {32, 0.0006029411764705882}, {38, 9.262301704129457e-05}}},
                              {16,
                               2,
                               26.8069342287539,
                               36.439894090001296,
                               26,
                               37,
                               {{24, 0.005623413251903491}, {32, 0.0005909090909090909}, {38, 6.846049085660903e-05}}},
                              {64,
                               1,
                               20.3849609879223,
                               39.6508807104171,
                               20,
                               40,
                               {{24, 0.0047799012641179675}, {32, 0.00055}, {38, 8.899863811359174e-05}}}};
  for (const Variant& v : variants) {
    auto p = factor(4);
    p.beta_fast = v.fast;
    p.beta_slow = v.slow;
    const auto r = ramp(1000000, 128, 32768, p);
    expect_relative(r.raw_low, v.raw_low);
    expect_relative(r.raw_high, v.raw_high);
    EXPECT_EQ(r.low, v.low);
    EXPECT_EQ(r.high, v.high);
    expect_planes(yarn(1000000, 128, 32768, p), v.planes);
  }
}

// truncate = 0 keeps the bounds as they are: golden from the formula, g = (i - lo) / (hi - lo).
TEST(Rules, YarnWithoutTruncation) {
  auto p = factor(16);
  p.truncate = false;
  const auto r = ramp(10000, 128, 4096, p);
  EXPECT_EQ(r.low, r.raw_low);
  EXPECT_EQ(r.high, r.raw_high);
  const double g = (33 - 20.944481620636054) / (45.02688127375455 - 20.944481620636054);
  const double f = std::pow(10000.0, -66.0 / 128);
  expect_planes(yarn(10000, 128, 4096, p), {{20, std::pow(10000.0, -40.0 / 128)}, {33, f * (1 - g) + f / 16 * g}});
}

// The amplitude is applied once: `attention_factor` is the amplitude itself. ggml multiplies its argument by 0.1 ln s + 1 in
// the kernel, so the argument for an amplitude is that amplitude divided by yarn_mscale.
TEST(Rules, sch_yarn_amplitude_applied_once) {
  auto p = factor(16);
  p.attention_factor = 1.0;
  EXPECT_EQ(yarn(1000000, 128, 16384, p).amplitude, 1.0);
  expect_relative(1.0 / yarn_mscale(16), 0.7829266421604794);
  expect_relative(1.0 * yarn_mscale(16), 1.2772588722239782);
}

TEST(Rules, sch_attn_factor_replace_or_multiply) {
  auto p = factor(4);
  p.attention_factor = 0.8782488562869419;  // hf: attention_factor replaces
  EXPECT_EQ(yarn(10000, 64, 4096, p).amplitude, 0.8782488562869419);
  p.attention_factor = 0.8782488562869419 * yarn_mscale(4);  // vllm's attn_factor multiplies the default
  expect_relative(yarn(10000, 64, 4096, p).amplitude, 1.0);
}

LongRopeParams longrope(double s) {
  LongRopeParams p;
  p.short_factor = {1.0, 1.05, 1.125, 1.5};
  p.long_factor = {1.0, 2.0, 8.5, 32.0};
  p.factor = s;
  return p;
}

TEST(Rules, sch_longrope_switch) {
  for (const int64_t length : {1, 4096, 4097, 131072}) {
    const auto s = scale_longrope(plain(10000, 8), longrope(32), 4096, length).value();
    expect_relative(s.amplitude, 1.1902380714238083);
    if (length <= 4096) {
      expect_planes(s, {{0, 1.0}, {1, 0.09523809523809523}, {2, 0.008888888888888889}, {3, 0.0006666666666666666}});
    } else {
      expect_planes(s, {{0, 1.0}, {1, 0.05}, {2, 0.001176470588235294}, {3, 3.125e-05}});
    }
  }
}

TEST(Rules, sch_longrope_amplitude) {
  const auto amplitude = [](LongRopeParams p, int64_t length) {
    return scale_longrope(plain(10000, 8), p, 4096, length).value().amplitude;
  };
  expect_relative(amplitude(longrope(32), 100), 1.1902380714238083);
  auto given = longrope(32);
  given.attention_factor = 1.25;
  expect_relative(amplitude(given, 100), 1.25);
  expect_relative(amplitude(longrope(1), 100), 1.0);
  auto two = longrope(32);
  two.short_mscale = 1.25;
  two.long_mscale = 1.5;
  expect_relative(amplitude(two, 4096), 1.25);
  expect_relative(amplitude(two, 4097), 1.5);
}

TEST(Rules, sch_llama3) {
  const auto check = [](int width, double s, size_t kept, size_t divided, const std::map<size_t, double>& divisor,
                        const std::map<size_t, double>& planes) {
    const auto before = plain(500000, width);
    const auto after = scale_llama3(before, {s, 1, 4}, 8192).value();
    for (size_t i = 0; i < before.inv_freq.size(); ++i) {
      const double ratio = before.inv_freq[i] / after.inv_freq[i];
      EXPECT_EQ(ratio == 1, i <= kept) << i;
      EXPECT_EQ(after.inv_freq[i] == before.inv_freq[i] / s, i >= divided) << i;
    }
    for (const auto& [i, d] : divisor) expect_relative(before.inv_freq[i] / after.inv_freq[i], d);
    expect_planes(after, planes);
    EXPECT_EQ(after.amplitude, 1);
  };
  check(128, 8, 28, 35,
        {{29, 1.2074838712836622},
         {30, 1.5534146285049255},
         {31, 2.0263132059050557},
         {32, 2.6945296878947333},
         {33, 3.6842525277457185},
         {34, 5.257326588708467}},
        {{28, 0.003211445994752591},
         {29, 0.0021665707635033587},
         {34, 0.0001785078127679964},
         {35, 9.556212353964683e-05},
         {63, 3.068925988914511e-07}});
  check(64, 32, 14, 18, {{15, 1.6513292457638984}, {16, 3.292262102940884}, {17, 9.66672897875329}},
        {{14, 0.003211445994752591},
         {15, 0.0012905479282092638},
         {17, 9.708287802627673e-05},
         {18, 1.9461638184831125e-05},
         {31, 9.41830672543491e-08}});
}

TEST(Rules, sch_proportional) {
  const auto s = make_proportional_schedule(1000000, 512, 0.25, Pairing::kHalves).value();
  ASSERT_EQ(s.inv_freq.size(), 256U);
  EXPECT_EQ(s.rotated, (Slice{0, 512}));
  expect_planes(s, {{0, 1.0}, {1, 0.9474635256553754}, {32, 0.1778279410038923}, {63, 0.033376246942920386}});
  for (size_t i = 64; i < 256; ++i) EXPECT_EQ(s.inv_freq[i], 0);
}

TEST(Rules, sch_partial_exponent) {
  const auto s = make_partial_schedule(1000000, 256, 0.25, Pairing::kHalves).value();
  ASSERT_EQ(s.inv_freq.size(), 32U);
  expect_planes(s, {{0, 1.0}, {1, 0.6493816315762113}, {16, 0.001}, {31, 1.539926526059492e-06}});
  EXPECT_EQ(make_partial_schedule(1000000, 256, 0.25, Pairing::kHalves, SliceEnd::kLast).value().rotated, (Slice{192, 64}));
}

// A rule acts on the frequencies it is given: twice linear:2 is linear:4, and NTK on scaled frequencies keeps their ratio.
TEST(Rules, ActOnWhatIsThere) {
  const auto twice = scale_linear(scale_linear(plain(10000, 64), 2).value(), 2).value();
  EXPECT_EQ(twice.inv_freq, scale_linear(plain(10000, 64), 4).value().inv_freq);
  const auto scaled = scale_llama3(plain(500000, 128), {8, 1, 4}, 8192).value();
  const auto both = scale_ntk(scaled, 2).value();
  const auto alone = scale_ntk(plain(500000, 128), 2).value();
  for (size_t i = 0; i < both.inv_freq.size(); ++i) {
    expect_relative(both.inv_freq[i] / scaled.inv_freq[i], alone.inv_freq[i] / plain(500000, 128).inv_freq[i]);
  }
  const auto moved = scale_theta(plain(10000, 128), 1e6).value();
  for (size_t i = 0; i < 64; ++i) expect_relative(moved.inv_freq[i], plain(1e6, 128).inv_freq[i]);
}

TEST(Rules, FreeFactors) {
  const auto s = scale_factors(plain(10000, 8), std::vector<double>{1, 2, 1e30, 4}).value();
  expect_planes(s, {{0, 1}, {1, 0.05}, {3, 0.00025}});
  EXPECT_EQ(s.inv_freq[2], 0);
}

TEST(Rules, BadParametersAreErrors) {
  const auto code = [](const Result<RotarySchedule>& r) { return !r && r.error().code() == ErrorCode::kInvalidArgument; };
  const auto s = plain(10000, 64);
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_TRUE(code(scale_linear(s, bad)));
    EXPECT_TRUE(code(scale_ntk(s, bad)));
    EXPECT_TRUE(code(scale_theta(s, bad)));
    EXPECT_TRUE(code(scale_yarn(s, factor(bad), 4096)));
    EXPECT_TRUE(code(scale_dynamic_ntk(s, bad, 4096, 8192)));
    EXPECT_TRUE(code(scale_llama3(s, {bad, 1, 4}, 4096)));
    EXPECT_TRUE(code(make_rotary_schedule(bad, 64, 64, Pairing::kHalves)));
  }
  EXPECT_TRUE(code(scale_ntk(plain(10000, 2), 2)));  // R/(R-2)
  EXPECT_TRUE(code(scale_llama3(s, {8, 4, 4}, 4096)));
  EXPECT_TRUE(code(scale_gradient_base(s, 6, 8192)));
  EXPECT_TRUE(code(scale_factors(s, std::vector<double>{1, 2})));
  EXPECT_TRUE(code(scale_longrope(s, longrope(4), 4096, 1)));
  auto unknown = s;
  unknown.theta = 0;  // the base of these frequencies is not known
  EXPECT_TRUE(code(scale_theta(unknown, 1e6)));
  EXPECT_TRUE(code(scale_yarn(unknown, factor(4), 4096)));
  EXPECT_TRUE(code(scale_gradient_base(unknown, 4096, 8192)));
  EXPECT_TRUE(scale_ntk(unknown, 2).has_value());  // needs no base: its factors depend on s and R alone
  for (const int width : {0, -2, 7, 66}) EXPECT_TRUE(code(make_rotary_schedule(10000, width, 64, Pairing::kHalves))) << width;
}

// lyr-temperature-on-layers-without-rotation, lyr-multipliers-on-all-layers.
TEST(Rules, QueryMultipliers) {
  using Form = QueryTemperature::Form;
  const auto check = [](QueryTemperature t, const std::map<int64_t, double>& want) {
    for (const auto& [m, x] : want) expect_relative(query_multiplier(t, m), x);
  };
  check({Form::kLlama4, 0.1, 8192}, {{0, 1},
                                     {8190, 1},
                                     {8191, 1.0693147180559945},
                                     {16382, 1.0693147180559945},
                                     {16383, 1.109861228866811},
                                     {65535, 1.2197224577336219},
                                     {131071, 1.2833213344056216}});
  check({Form::kMinistral, 0.1, 16384}, {{0, 1},
                                         {16383, 1},
                                         {16384, 1.0693147180559945},
                                         {32767, 1.0693147180559945},
                                         {32768, 1.109861228866811},
                                         {262143, 1.2772588722239782}});
  check({Form::kLogN, 0, 8192},
        {{0, 1}, {8190, 1}, {8191, 1}, {8192, 1.0000135461143418}, {16383, 1.0769230769230769}, {65535, 1.2307692307692308}});
  check({}, {{-5, 1}, {1 << 20, 1}});
}

// cac-row-length-by-step: a row's length depends on its own position alone.
TEST(Rules, cac_row_length_by_step) {
  const std::map<int64_t, int64_t> want = {{0, 2048},    {2046, 2048}, {2047, 2048}, {2048, 2304}, {2303, 2304},
                                           {2304, 2560}, {4095, 4096}, {4096, 4352}, {-7, 2048}};
  for (const auto& [m, length] : want) EXPECT_EQ(length_by_step(m, 2048, 256), length) << m;
  expect_relative(scale_dynamic_ntk(plain(10000, 128), 2, 2048, 2304).value().theta, 12544.35301611004);
}

}  // namespace
}  // namespace ropewalk
