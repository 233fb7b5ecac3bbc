#include "encodings/rope/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/testing_folder.h"
#include "encodings/rope/rules.h"

namespace ropewalk {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kTrained = 8192;

std::string canonical(const std::string& text) { return parse_setting(text).value().text; }

std::string parse_error(const std::string& text) {
  const auto setting = parse_setting(text);
  EXPECT_FALSE(setting) << text;
  if (setting) return "";
  EXPECT_EQ(setting.error().code(), ErrorCode::kInvalidArgument);
  return setting.error().message();
}

TEST(SettingsParse, CanonicalTexts) {
  for (const char* text : {"none",
                           "plain",
                           "theta:500000",
                           "linear:2",
                           "ntk:2",
                           "ntk:4+logn",
                           "plain+yarn:4",
                           "gradient:16384",
                           "dynamic:2",
                           "dynamic:2:horizon=16384",
                           "dynamic:2:step=256",
                           "yarn:4:beta_fast=16:truncate=0",
                           "llama3:8:low=1:high=4",
                           "window:512",
                           "sinks:4:window=1024",
                           "self_extend:8:window=1024",
                           "rerope:512:leak=4",
                           "dual_chunk:1024:window=256",
                           "ntk:2:layers=full",
                           "ntk:2:layers=3-11",
                           "ntk:2:original=2048",
                           "longrope:factors.json",
                           "ntk_alpha:1000",
                           "factors:\"a,b:c+d.json\""}) {
    EXPECT_EQ(canonical(text), text);
  }
  EXPECT_EQ(canonical(" linear:2.0 "), "linear:2");
  EXPECT_EQ(canonical("gradient:16k"), "gradient:16384");
  EXPECT_EQ(canonical("dynamic:2:horizon=1m"), "dynamic:2:horizon=1048576");
  EXPECT_EQ(canonical("theta:1e6"), "theta:1000000");
  EXPECT_EQ(canonical("yarn:4:truncate=0:beta_fast=16"), "yarn:4:beta_fast=16:truncate=0");  // documented order
  EXPECT_EQ(canonical("factors:\"plain.json\""), "factors:plain.json");                      // quotes only where needed
  EXPECT_EQ(canonical("ntk:2:layers=\"0,3-11\""), "ntk:2:layers=\"0,3-11\"");
}

TEST(SettingsParse, Lists) {
  const auto list = parse_settings("none, linear:2,factors:\"a,b\",ntk:4+logn").value();
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[2].rules[0].value, "a,b");
  EXPECT_EQ(list[3].rules.size(), 2U);
  for (const char* bad : {"", "none,,ntk:2", "none,", ",none", "none,\"ntk:2"}) EXPECT_FALSE(parse_settings(bad)) << bad;
}

TEST(SettingsParse, EveryBadValueIsNamed) {
  EXPECT_THAT(parse_error("ntkk:2"), AllOf(HasSubstr("ntkk"), HasSubstr("yarn"), HasSubstr("dynamic")));
  EXPECT_THAT(parse_error("ntk"), HasSubstr("ntk:S"));
  EXPECT_THAT(parse_error("ntk:"), HasSubstr("ntk:S"));
  EXPECT_THAT(parse_error("none:3"), HasSubstr("3"));
  for (const char* bad :
       {"ntk:abc", "ntk:0", "ntk:-2", "ntk:nan", "ntk:inf", "ntk:2x", "ntk:1e999", "ntk:0x10", "ntk:+2", "ntk: 2"}) {
    EXPECT_THAT(parse_error(bad), HasSubstr("[setting]")) << bad;
  }
  EXPECT_THAT(parse_error("yarn:4:beta=3"), AllOf(HasSubstr("beta"), HasSubstr("beta_fast")));
  EXPECT_THAT(parse_error("yarn:4:16"), HasSubstr("key=value"));
  EXPECT_THAT(parse_error("yarn:4:beta_fast=1:beta_fast=2"), HasSubstr("twice"));
  EXPECT_THAT(parse_error("yarn:4:truncate=2"), HasSubstr("0 or 1"));
  EXPECT_THAT(parse_error("yarn:4:beta_fast="), HasSubstr("beta_fast"));
  EXPECT_THAT(parse_error("dynamic:2:step=256:horizon=4096"), HasSubstr("both"));
  EXPECT_THAT(parse_error("dynamic:2:step=0"), HasSubstr("step"));
  EXPECT_THAT(parse_error("gradient:16.5"), HasSubstr("16k"));
  EXPECT_THAT(parse_error("gradient:99999999999999999999"), HasSubstr("gradient"));
  EXPECT_THAT(parse_error("ntk:2+plain"), HasSubstr("plain"));
  EXPECT_THAT(parse_error("ntk:2+"), HasSubstr("ntk:2+"));
  EXPECT_THAT(parse_error("ntk:2:layers=b-3"), HasSubstr("3-11"));
  EXPECT_THAT(parse_error("ntk:2:layers=5-3"), HasSubstr("5-3"));
  EXPECT_THAT(parse_error("factors:\"open"), HasSubstr("closing"));
  EXPECT_THAT(parse_error("factors:a\"b\"c"), HasSubstr("whole value"));
  EXPECT_THAT(parse_error("factors"), HasSubstr("FILE"));
}

// Garbage of any kind is an error or a setting, never a crash: every prefix and every one-byte change of a long setting.
TEST(SettingsParse, SurvivesGarbage) {
  const std::string text = "plain+yarn:4:beta_fast=16:layers=\"0,3-11\"+dynamic:2:step=64k,factors:\"a+b\"";
  for (size_t n = 0; n <= text.size(); ++n) (void)parse_settings(text.substr(0, n));
  for (size_t i = 0; i < text.size(); ++i) {
    for (int c = 0; c < 256; ++c) {
      std::string changed = text;
      changed[i] = static_cast<char>(c);
      const auto settings = parse_settings(changed);
      if (!settings) continue;
      for (const auto& s : *settings) EXPECT_EQ(canonical(s.text), s.text);  // canonical texts are fixed points
    }
  }
}

struct Fixture {
  RotarySchedule trained = make_rotary_schedule(100000, 64, 64, Pairing::kHalves).value();
  RotarySchedule plain = trained;
  std::vector<RotaryLayer> layers;
  explicit Fixture(int count = 4) {
    for (int i = 0; i < count; ++i) layers.push_back({&trained, &plain, true, 0});
  }
  Result<AppliedSetting> apply(const std::string& text, int64_t length = 16384, int64_t original = kTrained) const {
    return apply_setting(parse_setting(text).value(), layers, kTrained, original, length);
  }
};

TEST(SettingsApply, RulesReachEachLayer) {
  const Fixture f;
  const auto none = f.apply("none").value();
  ASSERT_EQ(none.layers.size(), 4U);
  EXPECT_EQ(none.layers[3].rotary, f.trained);
  EXPECT_THAT(none.notes, IsEmpty());
  EXPECT_EQ(f.apply("ntk:2").value().layers[1].rotary, scale_ntk(f.trained, 2).value());
  EXPECT_EQ(f.apply("linear:4").value().layers[0].rotary, scale_linear(f.trained, 4).value());
  EXPECT_EQ(f.apply("theta:1e6").value().layers[0].rotary, scale_theta(f.trained, 1e6).value());
  EXPECT_EQ(f.apply("gradient:32k").value().layers[0].rotary, scale_gradient_base(f.trained, kTrained, 32768).value());
  EXPECT_EQ(f.apply("llama3:8:low=2").value().layers[0].rotary, scale_llama3(f.trained, {8, 2, 4}, kTrained).value());
  YarnParams p;
  p.factor = 4;
  p.beta_fast = 16;
  p.truncate = false;
  p.attention_factor = 1.5;
  EXPECT_EQ(f.apply("yarn:4:beta_fast=16:truncate=0:attention_factor=1.5").value().layers[0].rotary,
            scale_yarn(f.trained, p, kTrained).value());
  p = {};
  p.factor = 4;
  EXPECT_EQ(f.apply("yarn:4:original=2048").value().layers[0].rotary, scale_yarn(f.trained, p, 2048).value());
  const auto both = f.apply("ntk:4+logn").value().layers[0].rotary.value();
  EXPECT_EQ(both.inv_freq, scale_ntk(f.trained, 4).value().inv_freq);
  EXPECT_EQ(both.query_temperature, (QueryTemperature{QueryTemperature::Form::kLogN, 0, kTrained}));
  EXPECT_EQ(f.apply("window:512").value().layers[2].reach.window, 512);
}

// horizon: one schedule for the sequence; step (and the default): a map whose rows depend on their own position alone.
TEST(SettingsApply, DynamicByHorizonAndByStep) {
  const Fixture f;
  const auto fixed = f.apply("dynamic:2:horizon=16384").value().layers[0];
  EXPECT_EQ(fixed.rotary, scale_dynamic_ntk(f.trained, 2, kTrained, 16384).value());
  EXPECT_EQ(fixed.pairs, nullptr);
  const auto layer = f.apply("dynamic:2").value().layers[0];
  ASSERT_NE(layer.pairs, nullptr);
  EXPECT_FALSE(layer.rotary);
  const auto& pairs = *layer.pairs;
  int64_t edges = 0;
  for (int64_t m = -3; m < 10000;) {
    const int64_t next = pairs.next_edge(m);
    ASSERT_GT(next, m);
    const auto choice = pairs.choose({m, next - 1}, {0, next - 1});
    EXPECT_EQ(choice.sides, 1);
    EXPECT_EQ(choice.side[0], static_cast<uint64_t>(length_by_step(m, kTrained, 256)));
    EXPECT_EQ(choice.side[0], static_cast<uint64_t>(length_by_step(next - 1, kTrained, 256)));
    EXPECT_NE(choice.side[0], pairs.choose({next, next}, {0, next}).side[0]);
    const auto& schedule = pairs.schedule(choice.side[0]);
    EXPECT_EQ(schedule, scale_dynamic_ntk(f.trained, 2, kTrained, static_cast<int64_t>(choice.side[0])).value());
    EXPECT_EQ(&schedule, &pairs.schedule(choice.side[0]));
    m = next;
    ++edges;
  }
  EXPECT_EQ(edges, 1 + (10000 - 8192) / 256 + 1);
  EXPECT_EQ(pairs.schedule(kTrained), f.trained);  // rows below L0 are the unscaled model's
  EXPECT_THAT(f.apply("dynamic:2:horizon=9000").value().notes, Contains(HasSubstr("9000")));
}

TEST(SettingsApply, StepsCombineWithOtherRules) {
  const Fixture f;
  const auto layer = f.apply("linear:2+dynamic:2:step=1024+logn").value().layers[0];
  ASSERT_NE(layer.pairs, nullptr);
  const auto& schedule = layer.pairs->schedule(layer.pairs->choose({9000, 9000}, {0, 9000}).side[0]);
  EXPECT_EQ(schedule.inv_freq, scale_dynamic_ntk(scale_linear(f.trained, 2).value(), 2, kTrained, 9216).value().inv_freq);
  EXPECT_EQ(schedule.query_temperature.form, QueryTemperature::Form::kLogN);
  const auto shared = f.apply("dynamic:2").value();
  EXPECT_EQ(shared.layers[0].pairs, shared.layers[3].pairs);  // equal layers share one map and its schedules
}

TEST(SettingsApply, PlainStartsFromTheBareBase) {
  Fixture f;
  f.trained = scale_llama3(f.plain, {8, 1, 4}, 2048).value();
  const auto on_trained = f.apply("ntk:2", 16384, 2048).value();
  EXPECT_EQ(on_trained.layers[0].rotary, scale_ntk(f.trained, 2).value());
  EXPECT_THAT(on_trained.notes, Contains(AllOf(HasSubstr("plain+ntk:2"), HasSubstr("8192"), HasSubstr("2048"))));
  const auto bare = f.apply("plain+dynamic:2:horizon=4096", 4096, 2048).value();
  EXPECT_EQ(bare.layers[0].rotary, scale_dynamic_ntk(f.plain, 2, 2048, 4096).value());
  EXPECT_THAT(bare.notes, Contains(HasSubstr("2048")));
  EXPECT_EQ(f.apply("plain", 16384, 2048).value().layers[0].rotary, f.plain);
}

TEST(SettingsApply, LayersDefaultToTheGlobalOnes) {
  Fixture f(6);
  for (size_t i = 0; i < 6; ++i) {
    f.layers[i].global = i % 3 == 2;
    f.layers[i].reach.window = f.layers[i].global ? 0 : 512;
  }
  const auto applied = f.apply("linear:2").value();
  const auto changed = scale_linear(f.trained, 2).value();
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(applied.layers[i].rotary, i % 3 == 2 ? changed : f.trained) << i;
  EXPECT_THAT(applied.notes, Contains(AllOf(HasSubstr("2, 5"), HasSubstr("global"))));
  EXPECT_EQ(applied.layers[0].reach.window, 512);
  EXPECT_EQ(f.apply("linear:2:layers=sliding").value().layers[0].rotary, changed);
  EXPECT_EQ(f.apply("linear:2:layers=sliding").value().layers[2].rotary, f.trained);
  const auto ranges = f.apply("linear:2:layers=\"0,4-5\"").value();
  EXPECT_EQ(ranges.layers[0].rotary, changed);
  EXPECT_EQ(ranges.layers[3].rotary, f.trained);
  EXPECT_EQ(ranges.layers[5].rotary, changed);
  EXPECT_THAT(f.apply("linear:2:layers=4-6").error().message(), HasSubstr("0-5"));
  EXPECT_THAT(Fixture(4).apply("linear:2:layers=sliding").error().message(), HasSubstr("sliding"));
}

TEST(SettingsApply, LayersThatDoNotRotate) {
  Fixture f;
  f.layers[1].trained = f.layers[1].plain = nullptr;
  const auto applied = f.apply("ntk:2").value();
  EXPECT_FALSE(applied.layers[1].rotary);
  EXPECT_TRUE(applied.layers[0].rotary);
  EXPECT_THAT(f.apply("ntk:2:layers=1").error().message(), HasSubstr("rotates"));
}

TEST(SettingsApply, ErrorsNameTheSettingAndTheLayer) {
  Fixture f;
  f.trained.theta = 0;
  const auto unknown = f.apply("yarn:4");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message(), AllOf(HasSubstr("yarn:4"), HasSubstr("layer 0"), HasSubstr("theta")));
  EXPECT_THAT(apply_setting(parse_setting("yarn:4").value(), f.layers, 0, 0, 100).error().message(), HasSubstr("original=N"));
  EXPECT_TRUE(apply_setting(parse_setting("ntk:4").value(), f.layers, 0, 0, 100).has_value());
  EXPECT_FALSE(f.apply("dynamic:2:step=256+dynamic:2:step=512"));
  for (const char* later : {"dynamic:2+sinks:4:window=1024", "dynamic:2+dual_chunk:1024:window=64", "dynamic:2+rerope:512"}) {
    const auto r = f.apply(later);
    ASSERT_FALSE(r) << later;
    EXPECT_EQ(r.error().code(), ErrorCode::kUnsupported);
  }
  EXPECT_EQ(f.apply("self_extend:8").error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(f.apply("self_extend:8:window=64+rerope:64").error().code(), ErrorCode::kInvalidArgument);
  f.trained.query_temperature = {QueryTemperature::Form::kMinistral, 0.1, 4096};
  EXPECT_FALSE(f.apply("logn"));
}

// lyr-position-maps: near pairs keep their distance; grouped, cut off, or slowed beyond the window.
TEST(SettingsApply, lyr_position_maps) {
  const Fixture f;
  const std::pair<int64_t, int64_t> pairs[] = {{10, 10}, {10, 7}, {10, 6}, {10, 0}, {21, 0}, {1000, 3}};
  const std::pair<const char*, std::vector<double>> rules[] = {
      {"self_extend:3:window=4", {0, 3, 4, 6, 10, 335}},           {"ntk:2+rerope:4", {0, 3, 4, 4, 4, 4}},
      {"rerope:4:leak=8", {0, 3, 4, 4.75, 6.125, 128.125}},        {"rerope:4:leak=1", {0, 3, 4, 10, 21, 997}},
      {"dual_chunk:8:window=4:original=12", {0, 3, 4, 10, 11, 8}}, {"dual_chunk:8:window=2:original=12", {0, 4, 5, 11, 11, 8}}};
  for (const auto& [text, distances] : rules) {
    const auto applied = f.apply(text);
    ASSERT_TRUE(applied) << text << applied.error().message();
    const PairMap& map = *applied->layers[0].pairs;
    for (size_t i = 0; i < std::size(pairs); ++i) {
      const auto& [m, n] = pairs[i];
      const uint64_t side = map.choose({m, m}, {n, n}).at(m, n);
      double query = 0, key = 0;
      map.query_positions(side, {&m, 1}, {&query, 1});
      map.key_positions(side, {&n, 1}, {&key, 1});
      EXPECT_DOUBLE_EQ(query - key, distances[i]) << text << ' ' << m << ' ' << n;
    }
  }
}

class SettingsFiles : public testing::Test {
 protected:
  std::string write(const std::string& text) const { return folder_.write("factors.json", text); }
  TemporaryFolder folder_;
  const RotarySchedule small_ = make_rotary_schedule(10000, 8, 8, Pairing::kHalves).value();
  const std::vector<RotaryLayer> layers_ = {{&small_, &small_, true, 0}};
  Result<AppliedSetting> apply(const std::string& text, int64_t length = 131072) {
    return apply_setting(parse_setting(text).value(), layers_, 4096, 4096, length);
  }
};

TEST_F(SettingsFiles, Factors) {
  const auto want = scale_factors(small_, std::vector<double>{1, 2, 4, 8}).value();
  for (const char* text : {"[1, 2, 4, 8]", "{\"factors\": [1, 2, 4, 8]}", "1\n2 # second\n4,8\n"}) {
    EXPECT_EQ(apply("factors:\"" + write(text) + "\"").value().layers[0].rotary, want) << text;
  }
  for (const char* bad :
       {"", "[]", "[1,2", "{}", "[1, \"x\", 3, 4]", "1 2 x", "[1,2,3]", "[1,2,3,0]", "[1,2,3,-4]", "# none"}) {
    EXPECT_FALSE(apply("factors:\"" + write(bad) + "\"")) << bad;
  }
  EXPECT_EQ(apply("factors:/nowhere/at/all.json").error().code(), ErrorCode::kNotFound);
}

TEST_F(SettingsFiles, LongRope) {
  const std::string lists = "\"short_factor\": [1, 1.05, 1.125, 1.5], \"long_factor\": [1, 2, 8.5, 32]";
  const auto path = write(
      "{\"max_position_embeddings\": 131072, \"original_max_position_embeddings\": 4096, \"rope_scaling\": {" + lists + "}}");
  const auto fixed = apply("longrope:\"" + path + "\":horizon=128k").value();
  EXPECT_NEAR(fixed.layers[0].rotary->amplitude, 1.1902380714238083, 1e-12);  // s = 32, from the config's lengths
  EXPECT_NEAR(fixed.layers[0].rotary->inv_freq[3], 3.125e-05, 1e-17);
  EXPECT_NEAR(apply("longrope:\"" + path + "\":horizon=4096").value().layers[0].rotary->inv_freq[3], 0.001 / 1.5, 1e-15);
  const auto stepped = apply("longrope:\"" + path + "\"").value();
  ASSERT_NE(stepped.layers[0].pairs, nullptr);
  const auto& pairs = *stepped.layers[0].pairs;
  EXPECT_NEAR(pairs.schedule(pairs.choose({4095, 4095}, {0, 4095}).side[0]).inv_freq[3], 0.001 / 1.5, 1e-15);
  EXPECT_NEAR(pairs.schedule(pairs.choose({4096, 4096}, {0, 4096}).side[0]).inv_freq[3], 3.125e-05, 1e-17);
  const auto bare = apply("longrope:\"" + write("{" + lists + "}") + "\":horizon=128k").value();
  EXPECT_EQ(bare.layers[0].rotary->amplitude, 1);
  EXPECT_THAT(bare.notes, Contains(HasSubstr("amplitude 1")));
  for (const char* bad : {"", "[1]", "{}", "{\"short_factor\": [1]}", "{\"short_factor\": 1, \"long_factor\": [1]}"}) {
    EXPECT_FALSE(apply("longrope:\"" + write(bad) + "\"")) << bad;
  }
}

}  // namespace
}  // namespace ropewalk
