#include "inspection.h"
#include "base/testing_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>

namespace ropewalk::app {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

LayerSpec layer(double theta, int64_t window, bool global) {
  LayerSpec spec;
  spec.position.rotary = make_rotary_schedule(theta, 64, 64, Pairing::kHalves).value();
  spec.position.rotary_plain = spec.position.rotary;
  spec.position.reach.window = window;
  spec.position.global = global;
  return spec;
}

// Seven layers as in Gemma 3: every sixth is global.
ModelSpec two_kinds() {
  ModelSpec spec;
  spec.architecture = "gemma3";
  spec.heads = 3;
  spec.kv_heads = 1;
  spec.head_dim = 64;
  spec.context_trained = spec.context_original = spec.context_claimed = 8192;
  for (int i = 0; i < 7; ++i) spec.layers.push_back(i % 6 == 5 ? layer(1e6, 0, true) : layer(1e4, 512, false));
  return spec;
}

TEST(Inspection, Ranges) {
  EXPECT_EQ(format_ranges({}), "");
  EXPECT_EQ(format_ranges({3}), "3");
  EXPECT_EQ(format_ranges({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

TEST(Inspection, EqualLayersShareAGroup) {
  const auto groups = group_layers(two_kinds().layers);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].layers, "0-4,6");
  EXPECT_EQ(groups[0].count, 6);
  EXPECT_EQ(groups[1].layers, "5");
}

// Plane i of R = 64, theta = 1e5 turns once in 2 pi 1e5^(i/32) positions. Within 8192 that needs
// i <= 32 ln(8192 / 2 pi) / ln 1e5 = 19.94, so planes 20 to 31 never complete a turn.
TEST(Inspection, PlanesThatNeverCompleteATurn) {
  const RotarySchedule schedule = make_rotary_schedule(1e5, 64, 64, Pairing::kInterleaved).value();
  const PlaneSummary summary = summarize_planes(schedule, 8192);
  EXPECT_EQ(summary.planes, 32);
  EXPECT_EQ(summary.still, 0);
  EXPECT_EQ(summary.incomplete, 12);
  EXPECT_EQ(summary.first_incomplete, 20);
  EXPECT_NEAR(summary.shortest, 2 * std::numbers::pi, 1e-12);
  EXPECT_NEAR(summary.longest, 2 * std::numbers::pi * std::pow(1e5, 31.0 / 32), 1e-6);

  RotarySchedule still = schedule;
  still.inv_freq[31] = 0;
  EXPECT_EQ(summarize_planes(still, 8192).still, 1);
  EXPECT_EQ(summarize_planes(still, 8192).incomplete, 11);
  EXPECT_EQ(summarize_planes(schedule, int64_t{1} << 40).incomplete, 0);
  EXPECT_EQ(summarize_planes(schedule, int64_t{1} << 40).first_incomplete, -1);
  EXPECT_EQ(summarize_planes(RotarySchedule{}, 8192).planes, 0);
}

TEST(Inspection, FieldsOfTheContract) {
  const json body = inspection_body(inspect_spec(two_kinds(), "gguf", "x.gguf"));
  EXPECT_EQ(body["encoding"], "rope");
  EXPECT_EQ(body["dialect"], "gguf");
  EXPECT_EQ(body["context_trained"], 8192);
  EXPECT_EQ(body["context_claimed"], 8192);
  EXPECT_TRUE(body["findings"].is_array());
  EXPECT_TRUE(body["readings"].is_array());
  ASSERT_EQ(body["layers"].size(), 2U);
  const json& local = body["layers"][0];
  EXPECT_EQ(local["layers"], "0-4,6");
  EXPECT_EQ(local["pairing"], "halves");
  EXPECT_EQ(local["rotary_dim"], 64);
  EXPECT_EQ(local["head_dim"], 64);
  EXPECT_EQ(local["theta"], 1e4);
  EXPECT_EQ(local["inv_freq"].size(), 32U);
  EXPECT_EQ(local["amplitude"], 1.0);
  EXPECT_EQ(local["softmax_multiplier"], 1.0);
  EXPECT_TRUE(local["axis"].is_null());
  EXPECT_TRUE(local["temperature"].is_null());
  EXPECT_EQ(local["window"], 512);
  EXPECT_TRUE(body["layers"][1]["window"].is_null());
}

TEST(Inspection, LayersWithoutRotationAndFindings) {
  ModelSpec spec = two_kinds();
  spec.layers[5].position.rotary.reset();
  spec.layers[0].position.rotary->query_temperature = {QueryTemperature::Form::kLlama4, 0.1, 8192};
  spec.context_claimed = 131072;
  spec.notes = {"a key without effect"};
  const Inspection found = inspect_spec(spec, "hf", "config.json");
  const json body = inspection_body(found);
  ASSERT_EQ(body["layers"].size(), 3U);
  EXPECT_EQ(body["layers"][0]["temperature"]["form"], "llama4");
  EXPECT_EQ(body["layers"][0]["scaled"], true);
  EXPECT_EQ(body["layers"][2]["encoding"], "none");
  EXPECT_TRUE(body["layers"][2]["pairing"].is_null());
  EXPECT_TRUE(body["layers"][2]["inv_freq"].empty());
  ASSERT_EQ(body["findings"].size(), 2U);
  EXPECT_EQ(body["findings"][1]["code"], "RW002");
  EXPECT_EQ(body["findings"][1]["key"], "max_position_embeddings");
  EXPECT_EQ(body["findings"][1]["severity"], "warning");
  const std::string text = inspection_text(found, true);
  EXPECT_THAT(text, HasSubstr("RW002"));
  EXPECT_THAT(text, HasSubstr("131072 claimed"));
  EXPECT_THAT(text, HasSubstr("never a whole turn"));
}

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) { folder_.write("config.json", text); }
  std::string path() const { return folder_ / "config.json"; }
  std::string folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

// YaRN by 4 from 32768 (Qwen2.5's published form). Plane 0 turns as before, the last planes four times slower; the amplitude is
// 0.1 ln 4 + 1 (encodings.md, section 4).
TEST(Inspection, LoneConfigWithYarn) {
  const ConfigFile file(R"({"model_type": "qwen2", "hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 2,
      "num_key_value_heads": 1, "num_hidden_layers": 3, "vocab_size": 100, "max_position_embeddings": 32768, "rope_theta": 1000000.0,
      "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}})");
  for (const std::string& path : {file.path(), file.folder()}) {
    const auto found = inspect_path(path);
    ASSERT_TRUE(found) << found.error().message();
    const json body = inspection_body(*found);
    EXPECT_EQ(body["dialect"], "hf");
    ASSERT_EQ(body["layers"].size(), 1U);
    EXPECT_EQ(body["layers"][0]["layers"], "0-2");
    EXPECT_EQ(body["layers"][0]["scaled"], true);
    EXPECT_NEAR(body["layers"][0]["amplitude"].get<double>(), 0.1 * std::log(4.0) + 1, 1e-12);
    EXPECT_EQ(body["layers"][0]["inv_freq"][0], 1.0);
    EXPECT_NEAR(body["layers"][0]["inv_freq"][31].get<double>(), std::pow(1e6, -31.0 / 32) / 4, 1e-18);
  }
}

// The engine's golden models: the same network as GGUF and as a folder must show the same frequencies.
TEST(Inspection, GgufAndFolderAgree) {
  const std::string golden = std::string(ROPEWALK_SOURCE_DIR) + "/src/engine/golden/";
  for (const char* name : {"llama", "qwen2", "gemma3"}) {
    const auto gguf = inspect_path(golden + name + ".gguf"), folder = inspect_path(golden + name);
    ASSERT_TRUE(gguf) << gguf.error().message();
    ASSERT_TRUE(folder) << folder.error().message();
    const json a = inspection_body(*gguf), b = inspection_body(*folder);
    EXPECT_EQ(a["dialect"], "gguf");
    EXPECT_EQ(b["dialect"], "hf");
    EXPECT_EQ(a["context_trained"], b["context_trained"]) << name;
    ASSERT_EQ(a["layers"].size(), b["layers"].size()) << name;
    for (size_t i = 0; i < a["layers"].size(); ++i) {
      EXPECT_EQ(a["layers"][i]["layers"], b["layers"][i]["layers"]) << name;
      EXPECT_EQ(a["layers"][i]["window"], b["layers"][i]["window"]) << name;
      ASSERT_EQ(a["layers"][i]["inv_freq"].size(), b["layers"][i]["inv_freq"].size()) << name;
      for (size_t p = 0; p < a["layers"][i]["inv_freq"].size(); ++p) {
        // GGUF holds the base as f32: good to 2^-24, its powers below one no worse.
        const double want = b["layers"][i]["inv_freq"][p].get<double>();
        EXPECT_NEAR(a["layers"][i]["inv_freq"][p].get<double>(), want, 1e-7 * want) << name;
      }
    }
  }
}

TEST(Inspection, UnusableFilesNameThemselves) {
  const ConfigFile file("{\"model_type\": \"llama\", ");
  const auto broken = inspect_path(file.path());
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message(), HasSubstr("config.json"));
  const auto absent = inspect_path(file.folder() + "/absent.gguf");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(absent.error().message(), HasSubstr("absent.gguf"));
}

}  // namespace
}  // namespace ropewalk::app
