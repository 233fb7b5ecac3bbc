// What a spec says, from GGUF keys and tensors, and how a file that cannot be used is refused. Cases of configs.json by id.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/testing_folder.h"
#include "engine/forward.h"
#include "engine/model.h"
#include "formats/testing_bytes.h"

namespace ropewalk {
namespace {

using testing::expect_error_names;
using testing::GgufBuilder;

// A one-layer llama of width 16 with 2 heads of 8, and a way to change each part of it.
struct TinyFile {
  std::string architecture = "llama";
  int layers = 1;
  std::map<std::string, std::vector<uint64_t>> shapes;  // GGUF order; an empty shape leaves the tensor out
  std::map<std::string, std::vector<float>> values;     // instead of zeros
  GgufBuilder builder;

  TinyFile() {
    for (const auto& [name, shape] :
         std::map<std::string, std::vector<uint64_t>>{{"token_embd.weight", {16, 5}}, {"output_norm.weight", {16}}}) {
      shapes[name] = shape;
    }
  }
  std::string key(const std::string& name) const { return architecture + "." + name; }

  std::string build() {
    builder.text("general.architecture", architecture);
    for (const auto& [name, value] : std::map<std::string, uint32_t>{{"block_count", static_cast<uint32_t>(layers)},
                                                                     {"embedding_length", 16},
                                                                     {"feed_forward_length", 12},
                                                                     {"attention.head_count", 2},
                                                                     {"attention.head_count_kv", 1}}) {
      builder.u32(key(name), value);
    }
    builder.f32(key("attention.layer_norm_rms_epsilon"), 1e-5F);
    for (int i = 0; i < layers; ++i) {
      const std::string blk = "blk." + std::to_string(i) + ".";
      std::map<std::string, std::vector<uint64_t>> layer = {
          {"attn_norm.weight", {16}},    {"attn_q.weight", {16, 16}}, {"attn_k.weight", {16, 8}},
          {"attn_v.weight", {16, 8}},    {"ffn_norm.weight", {16}},   {"attn_output.weight", {16, 16}},
          {"ffn_gate.weight", {16, 12}}, {"ffn_up.weight", {16, 12}}, {"ffn_down.weight", {12, 16}}};
      if (architecture == "gemma3") {
        layer.insert({{"attn_q_norm.weight", {8}},
                      {"attn_k_norm.weight", {8}},
                      {"post_attention_norm.weight", {16}},
                      {"post_ffw_norm.weight", {16}}});
      }
      for (const auto& [name, shape] : layer) shapes.insert({blk + name, shape});
    }
    for (const auto& [name, shape] : shapes) {
      if (shape.empty()) continue;
      uint64_t count = 1;
      for (const uint64_t d : shape) count *= d;
      std::string data(count * 4, '\0');
      if (const auto found = values.find(name); found != values.end()) {
        data.clear();
        for (const float v : found->second) data += GgufBuilder::raw(v);
      }
      builder.tensor(name, shape, 0, data);
    }
    return builder.build();
  }
};

class Spec : public ::testing::Test {
 protected:
  Result<Model> open(TinyFile& file, uint32_t context = 4096) {
    file.builder.u32(file.key("context_length"), context);
    return Model::open_weights(folder_.write("tiny.gguf", file.build()));
  }
  TemporaryFolder folder_;
};

void expect_frequencies(const LayerPosition& position, const std::vector<double>& want) {
  ASSERT_TRUE(position.rotary);
  ASSERT_EQ(position.rotary->inv_freq.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(position.rotary->inv_freq[i], want[i], 1e-12 * want[i]) << i;
}

TEST_F(Spec, PlainLlama_cfg_gguf_model_base_wins) {
  TinyFile without, with;
  with.builder.f32("llama.rope.freq_base", 1e6F);
  const Model a = open(without).value(), b = open(with).value();
  expect_frequencies(a.spec().layers[0].position, {1, 0.1, 0.01, 0.001});
  expect_frequencies(b.spec().layers[0].position, {1, std::pow(1e6, -0.25), 1e-3, std::pow(1e6, -0.75)});
  EXPECT_EQ(a.spec().layers[0].position.rotary->pairing, Pairing::kInterleaved);
  EXPECT_EQ(a.spec().output, a.spec().token_embedding);
  EXPECT_EQ(a.spec().vocabulary, 5);
  EXPECT_EQ(a.spec().context_trained, 4096);
}

TEST_F(Spec, Linear_cfg_gguf_linear) {
  for (const int variant : {0, 1, 2}) {
    TinyFile file;
    if (variant == 0) file.builder.text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 2);
    if (variant == 1) file.builder.f32("llama.rope.scale_linear", 2);
    if (variant == 2) file.builder.f32("llama.rope.scaling.factor", 2);
    const Model model = open(file).value();
    expect_frequencies(model.spec().layers[0].position, {0.5, 0.05, 0.005, 0.0005});
    EXPECT_EQ(model.spec().layers[0].position.rotary_plain->inv_freq[0], 1);
  }
  TinyFile none;
  none.builder.text("llama.rope.scaling.type", "none").f32("llama.rope.scaling.factor", 4);
  const Model model = open(none).value();
  expect_frequencies(model.spec().layers[0].position, {1, 0.1, 0.01, 0.001});
  ASSERT_EQ(model.spec().notes.size(), 1U);
  for (const char* name : {"llama.rope.scaling.factor", "4", "none"})
    EXPECT_TRUE(testing::mentions(model.spec().notes[0], name));
}

TEST_F(Spec, Yarn_cfg_gguf_yarn) {
  TinyFile file;
  file.builder.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4);
  file.builder.u32("llama.rope.scaling.original_context_length", 32768).f32("llama.rope.freq_base", 1e6F);
  const Model model = open(file, 131072).value();
  const RotarySchedule& s = *model.spec().layers[0].position.rotary;
  EXPECT_NEAR(s.amplitude, 1.138629436111989, 1e-12);
  EXPECT_EQ(model.spec().context_original, 32768);
  EXPECT_EQ(model.spec().context_trained, 131072);
  // The ramp for R = 8: c(r) = 8 ln(32768 / (2 pi r)) / (2 ln 1e6), floor(c(32)) = 1, ceil(c(1)) = 3.
  EXPECT_NEAR(s.inv_freq[0], 1, 1e-12);
  EXPECT_NEAR(s.inv_freq[1], std::pow(1e6, -0.25), 1e-12);
  EXPECT_NEAR(s.inv_freq[2], 1e-3 * (0.5 + 0.5 / 4), 1e-12);
  EXPECT_NEAR(s.inv_freq[3], std::pow(1e6, -0.75) / 4, 1e-12);

  TinyFile bad;
  bad.builder.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4);
  bad.builder.f32("llama.rope.scaling.yarn_ext_factor", 64);
  expect_error_names(open(bad), {"llama.rope.scaling.yarn_ext_factor", "64"});
}

TEST_F(Spec, RopeFreqs_cfg_gguf_rope_freqs) {
  TinyFile file, still, short_list;
  file.shapes["rope_freqs.weight"] = still.shapes["rope_freqs.weight"] = {4};
  file.values["rope_freqs.weight"] = {1, 1, 2, 8};
  still.values["rope_freqs.weight"] = {1, 1, 1e30F, 1e30F};
  short_list.shapes["rope_freqs.weight"] = {3};
  short_list.values["rope_freqs.weight"] = {1, 1, 2};
  const Model a = open(file).value();
  expect_frequencies(a.spec().layers[0].position, {1, 0.1, 0.005, 0.000125});
  const Model b = open(still).value();
  EXPECT_LT(b.spec().layers[0].position.rotary->inv_freq[2], 1e-30);
  EXPECT_LT(b.spec().layers[0].position.rotary->inv_freq[3], 1e-30);
  expect_error_names(open(short_list), {"rope_freqs.weight", "3", "4"});
}

TEST_F(Spec, FactorTensors_cfg_gguf_factor_tensors) {
  TinyFile file;
  file.builder.text("llama.rope.scaling.type", "longrope").u32("llama.rope.scaling.original_context_length", 4096);
  file.builder.f32("llama.rope.scaling.attn_factor", 1.1902380714238083F);
  file.shapes["rope_factors_long.weight"] = file.shapes["rope_factors_short.weight"] = {4};
  file.values["rope_factors_long.weight"] = {1, 2, 8.5F, 32};
  file.values["rope_factors_short.weight"] = {1, 1.05F, 1.125F, 1.5F};
  const Model model = open(file, 131072).value();
  const Setting none = parse_setting("none").value();
  for (const auto& [length, want] :
       std::map<int64_t, std::vector<double>>{{4096, {1, 0.1 / static_cast<double>(1.05F), 0.01 / 1.125, 0.001 / 1.5}},
                                              {4097, {1, 0.05, 0.01 / 8.5, 0.001 / 32}}}) {
    const AppliedLayer layer = apply_setting(none, model.spec(), length).value().layers[0];
    ASSERT_TRUE(layer.rotary);
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(layer.rotary->inv_freq[i], want[i], 1e-12 * want[i]) << length << " " << i;
    EXPECT_NEAR(layer.rotary->amplitude, 1.1902380714238083, 1e-7);  // the key is f32
  }
}

TEST_F(Spec, TwoBases_cfg_gguf_two_bases) {
  TinyFile file;
  file.architecture = "gemma3";
  file.layers = 6;
  file.builder.u32("gemma3.attention.key_length", 8).u32("gemma3.attention.sliding_window", 512);
  file.builder.array<uint8_t>("gemma3.attention.sliding_window_pattern", 7, {1, 1, 1, 1, 1, 0});
  file.builder.f32("gemma3.rope.freq_base", 1e6F).f32("gemma3.rope.freq_base_swa", 1e4F);
  file.builder.text("gemma3.rope.scaling.type", "linear").f32("gemma3.rope.scaling.factor", 8);
  const Model model = open(file, 131072).value();
  for (const size_t local : {size_t{0}, size_t{4}}) {
    expect_frequencies(model.spec().layers[local].position, {1, 0.1, 0.01, 0.001});
    EXPECT_EQ(model.spec().layers[local].position.reach.window, 512);
    EXPECT_FALSE(model.spec().layers[local].position.global);
  }
  expect_frequencies(model.spec().layers[5].position, {0.125, 0.003952847075210474, 0.000125, 3.952847075210474e-06});
  EXPECT_EQ(model.spec().layers[5].position.reach.window, 0);
  EXPECT_TRUE(model.spec().layers[5].position.global);
}

TEST_F(Spec, ImpliedPatternOfGemma3_lyr_window_pattern) {
  TinyFile file;
  file.architecture = "gemma3";
  file.layers = 13;
  file.builder.u32("gemma3.attention.key_length", 8).u32("gemma3.attention.sliding_window", 512);
  const Model model = open(file).value();
  for (size_t i = 0; i < 13; ++i) EXPECT_EQ(model.spec().layers[i].position.global, (i + 1) % 6 == 0) << i;
  expect_frequencies(model.spec().layers[0].position, {1, 0.1, 0.01, 0.001});
  expect_frequencies(model.spec().layers[5].position, {1, std::pow(1e6, -0.25), 1e-3, std::pow(1e6, -0.75)});
}

TEST_F(Spec, UnknownArchitecture) {
  TinyFile file;
  file.architecture = "mamba";
  expect_error_names(open(file), {"mamba", "general.architecture", "llama", "qwen2", "gemma3"});
}

TEST_F(Spec, TensorsThatAreMissingMisshapenOrLeftOver) {
  TinyFile missing, misshapen, bias, past;
  missing.shapes["blk.0.ffn_up.weight"] = {};
  expect_error_names(open(missing), {"blk.0.ffn_up.weight", "12, 16"});
  misshapen.shapes["blk.0.attn_k.weight"] = {16, 16};
  expect_error_names(open(misshapen), {"blk.0.attn_k.weight", "8, 16", "16, 16"});
  bias.shapes["blk.0.attn_output.bias"] = {16};
  expect_error_names(open(bias), {"blk.0.attn_output.bias"});
  past.shapes["blk.1.attn_norm.weight"] = {16};
  expect_error_names(open(past), {"blk.1.attn_norm.weight"});
}

TEST_F(Spec, PositionKeysThatWouldBeIgnored) {
  TinyFile sections, rule;
  sections.builder.array<int32_t>("llama.rope.dimension_sections", 5, {1, 1, 2, 0});
  expect_error_names(open(sections), {"llama.rope.dimension_sections"});
  rule.builder.text("llama.rope.scaling.type", "spiral");
  expect_error_names(open(rule), {"llama.rope.scaling.type", "spiral"});
}

TEST_F(Spec, QwenNeedsItsBiases) {
  TinyFile file;
  file.architecture = "qwen2";
  expect_error_names(open(file), {"blk.0.attn_q.bias", "16"});
}

// NaN and infinity in a weight: an error that names file, tensor and place, on the path through packed layers and on the one
// straight from the blocks.
TEST_F(Spec, WeightsThatAreNotFinite) {
  const std::vector<int32_t> tokens(12, 1);
  for (const char* name : {"token_embd.weight", "blk.0.ffn_down.weight", "blk.0.attn_norm.weight", "output_norm.weight"}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      TinyFile file;
      const std::string tensor = name;
      const size_t count = tensor == "token_embd.weight" ? 80 : tensor == "blk.0.ffn_down.weight" ? 192 : 16;
      file.values[tensor] = std::vector<float>(count, 0.25F);
      if (tensor != "token_embd.weight") file.values["token_embd.weight"] = std::vector<float>(80, 0.25F);
      file.values[tensor][count == 80 ? 17 : 3] = bad;
      const Model model = open(file).value();
      const LayerPositions scheme = apply_setting(parse_setting("none").value(), model.spec(), 12).value().layers;
      expect_error_names(score_window(model, scheme, tokens, {}, {}, {}), {"tiny.gguf", tensor});
      auto session = Session::make(model, scheme, 4, {});
      if (!session) {
        expect_error_names(session, {"tiny.gguf", tensor});
      } else {
        expect_error_names(session->append(std::span(tokens).first(1), {}), {"tiny.gguf", tensor});
      }
    }
  }
}

TEST_F(Spec, BadCallsAreRefused) {
  TinyFile file;
  const Model model = open(file).value();
  const LayerPositions scheme = apply_setting(parse_setting("none").value(), model.spec(), 12).value().layers;
  const std::vector<int32_t> good = {0, 1, 2, 3}, bad = {0, 5, 1}, negative = {0, -1};
  expect_error_names(score_window(model, scheme, bad, {}, {}, {}), {"5", "4"});
  expect_error_names(score_window(model, scheme, negative, {}, {}, {}), {"-1"});
  expect_error_names(score_window(model, scheme, std::span(good).first(1), {}, {}, {}), {"2", "1"});
  expect_error_names(score_window(model, {}, good, {}, {}, {}), {"1", "0"});
  const std::vector<int64_t> falling = {1, 0}, outside = {3};
  expect_error_names(score_window(model, scheme, good, falling, {}, {}), {"0", "1"});
  expect_error_names(score_window(model, scheme, good, outside, {}, {}), {"2", "3"});

  EXPECT_FALSE(Session::make(model, scheme, 0, {}));
  EXPECT_EQ(Session::make(model, scheme, int64_t{1} << 50, {}).error().code(), ErrorCode::kTooLarge);
  Session session = Session::make(model, scheme, 3, {}).value();
  EXPECT_EQ(session.append(good, {}).error().code(), ErrorCode::kTooLarge);
  EXPECT_EQ(session.append({}, {}).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(session.append(std::span(good).first(3), {}));
  EXPECT_EQ(session.append(std::span(good).first(1), {}).error().code(), ErrorCode::kTooLarge);
  EXPECT_EQ(session.length(), 3);
}

TEST_F(Spec, StoppingLeavesASessionAsItWas) {
  TinyFile file;
  const Model model = open(file).value();
  const LayerPositions scheme = apply_setting(parse_setting("none").value(), model.spec(), 12).value().layers;
  std::atomic<bool> stop{true};
  Control control;
  control.stop = &stop;
  const std::vector<int32_t> tokens = {0, 1, 2, 3};
  EXPECT_EQ(score_window(model, scheme, tokens, {}, {}, control).error().code(), ErrorCode::kInterrupted);
  Session session = Session::make(model, scheme, 4, {}).value();
  EXPECT_EQ(session.append(tokens, control).error().code(), ErrorCode::kInterrupted);
  EXPECT_EQ(session.length(), 0);
  stop = false;
  EXPECT_TRUE(session.append(tokens, control));
}

}  // namespace
}  // namespace ropewalk
