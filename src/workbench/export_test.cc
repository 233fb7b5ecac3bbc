#include "workbench/export.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/atomic_file.h"
#include "base/testing_folder.h"
#include "workbench/export_forms.h"

namespace ropewalk {
namespace {

RotarySchedule base_schedule(double theta, int rotary) {
  RotarySchedule out;
  for (int i = 0; i < rotary / 2; ++i) out.inv_freq.push_back(std::pow(theta, -2.0 * i / rotary));
  out.rotated = {0, rotary};
  out.theta = theta;
  return out;
}

// A model of two layers; the setting is applied by the test itself, so that the oracle is independent of the rules.
struct Fixture {
  RotarySchedule plain, target;
  ExportRequest request;
  Fixture(double theta, int rotary, int64_t trained, int64_t context, std::string text)
      : plain(base_schedule(theta, rotary)), target(plain) {
    request.setting.text = std::move(text);
    request.layers.assign(2, {&plain, &plain, true, 0});
    request.context_trained = trained;
    request.context = context;
    request.architecture = "llama";
    request.head_dim = rotary;
  }
  void rule(std::string name, std::string value, std::map<std::string, std::string> options = {}) {
    request.setting.rules = {{std::move(name), std::move(value), std::move(options)}};
  }
  std::vector<ExportTarget> run() {
    request.applied.layers.assign(2, {target, nullptr, 0});
    return export_setting(request).value();
  }
};

const ExportTarget& find(const std::vector<ExportTarget>& targets, const std::string& as) {
  for (const ExportTarget& target : targets) {
    if (target.as == as) return target;
  }
  throw std::runtime_error(as);
}

void expect_round_trips(const std::vector<ExportTarget>& targets) {
  for (const ExportTarget& target : targets) {
    ASSERT_TRUE(target.expressible) << target.as;
    // float32 forms: a base off by 2^-24 shifts f_i = theta^-e by e * 2^-24, e < 1; a factor adds as much again. Others hold
    // doubles.
    const double bound = target.as == "hf" || target.as == "vllm" ? 1e-12 : 2e-7;
    EXPECT_LE(target.max_relative_frequency_error, bound) << target.as;
    EXPECT_LE(target.amplitude_error, bound) << target.as;
    EXPECT_EQ(target.files.size(), 1u);
    EXPECT_NE(target.files[0].contents.find(std::to_string(16384)), std::string::npos) << target.as;
  }
}

TEST(Export, AnNtkSettingIsAnotherBaseEverywhere) {
  Fixture f(100000, 64, 8192, 16384, "ntk:2");
  f.rule("ntk", "2");
  const double theta = 100000 * std::pow(2.0, 64.0 / 62.0);
  f.target = base_schedule(theta, 64);
  const auto targets = f.run();
  expect_round_trips(targets);
  EXPECT_NE(find(targets, "llama.cpp").snippet.find("-c 16384 --rope-scaling none --rope-freq-base 204522"), std::string::npos)
      << find(targets, "llama.cpp").snippet;
  const auto hf = nlohmann::json::parse(find(targets, "hf").files[0].contents);
  EXPECT_NEAR(hf["transformers_5"]["rope_parameters"]["rope_theta"].get<double>(), theta, 1e-6);
  EXPECT_EQ(hf["transformers_5"]["rope_parameters"]["rope_type"], "default");
  EXPECT_TRUE(hf["transformers_4"]["rope_scaling"].is_null());
  EXPECT_EQ(hf["transformers_4"]["max_position_embeddings"], 16384);
  const auto gguf = nlohmann::json::parse(find(targets, "gguf").files[0].contents);
  EXPECT_EQ(gguf["keys"][1]["key"], "llama.rope.freq_base");
  EXPECT_EQ(gguf["keys"][1]["type"], "f32");
}

TEST(Export, Linear) {
  Fixture f(10000, 128, 4096, 16384, "linear:4");
  for (double& x : f.target.inv_freq) x /= 4;
  const auto targets = f.run();
  expect_round_trips(targets);
  EXPECT_NE(find(targets, "llama.cpp").snippet.find("--rope-scaling linear --rope-freq-base 10000 --rope-scale 4"),
            std::string::npos);
}

RotarySchedule yarn(const RotarySchedule& plain, double s, double original, double amplitude) {
  RotarySchedule out = plain;
  const double rotary = plain.rotated.count;
  const auto bound = [&](double r) {
    return rotary * std::log(original / (2 * std::numbers::pi * r)) / (2 * std::log(plain.theta));
  };
  const double low = std::max(0.0, std::floor(bound(32))), high = std::min(rotary - 1, std::ceil(bound(1)));
  for (size_t i = 0; i < out.inv_freq.size(); ++i) {
    const double g = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    out.inv_freq[i] = out.inv_freq[i] * (1 - g) + out.inv_freq[i] / s * g;
  }
  out.amplitude = amplitude;
  return out;
}

// sch-yarn-amplitude-applied-once: hf's number is the amplitude; ggml multiplies its argument by 0.1 ln s + 1 itself.
TEST(Export, YarnAmplitudeIsAppliedOnceInEveryDialect_sch_yarn_amplitude_applied_once) {
  Fixture f(1000000, 128, 16384, 16384 * 16, "yarn:16:attention_factor=1");
  f.rule("yarn", "16", {{"attention_factor", "1"}});
  f.target = yarn(f.plain, 16, 16384, 1.0);
  const auto targets = f.run();
  for (const ExportTarget& target : targets) {
    EXPECT_TRUE(target.expressible);
    EXPECT_LE(target.max_relative_frequency_error, 2e-7) << target.as;
    EXPECT_LE(target.amplitude_error, 2e-7) << target.as;
  }
  const auto gguf = nlohmann::json::parse(find(targets, "gguf").snippet);
  EXPECT_EQ(gguf["keys"].back()["key"], "llama.rope.scaling.attn_factor");
  EXPECT_NEAR(gguf["keys"].back()["value"].get<double>(), 0.7829266421604794, 1e-12);
  EXPECT_EQ(nlohmann::json::parse(find(targets, "hf").snippet)["transformers_5"]["rope_parameters"]["attention_factor"], 1.0);

  Fixture g(1000000, 128, 16384, 16384 * 16, "yarn:16");
  g.rule("yarn", "16");
  g.target = yarn(g.plain, 16, 16384, 1.2772588722239782);
  const auto with_default = g.run();
  EXPECT_EQ(find(with_default, "llama.cpp").snippet.find("attn-factor"), std::string::npos);
  EXPECT_EQ(find(with_default, "gguf").snippet.find("attn_factor"), std::string::npos);
  for (const ExportTarget& target : with_default) EXPECT_LE(target.amplitude_error, 2e-7) << target.as;
}

// sch-attn-factor-replace-or-multiply: attention_factor replaces (hf), attn_factor multiplies the default (vllm).
TEST(Export, VllmMultipliesWhereHfReplaces_sch_attn_factor_replace_or_multiply) {
  Fixture f(10000, 64, 4096, 16384, "yarn:4:attention_factor=0.8782488562869419");
  f.rule("yarn", "4", {{"attention_factor", "0.8782488562869419"}});
  f.target = yarn(f.plain, 4, 4096, 0.8782488562869419);
  const auto targets = f.run();
  expect_round_trips(targets);
  EXPECT_NE(find(targets, "hf").snippet.find("\"attention_factor\": 0.8782488562869419"), std::string::npos);
  const std::string vllm = find(targets, "vllm").snippet;
  EXPECT_EQ(vllm.find("attention_factor"), std::string::npos);
  EXPECT_NE(vllm.find(fmt::format("\"attn_factor\":{}", 0.8782488562869419 / 1.138629436111989).substr(0, 24)),
            std::string::npos)
      << vllm;
}

TEST(Export, FreeFactorsAreAListOrATensorAndNoFlag) {
  Fixture f(10000, 32, 2048, 16384, "factors:x.json");
  for (size_t i = 0; i < f.target.inv_freq.size(); ++i) f.target.inv_freq[i] /= 1 + 0.37 * static_cast<double>(i * i % 7);
  f.target.amplitude = 1.05;
  const auto targets = f.run();
  EXPECT_FALSE(find(targets, "llama.cpp").expressible);
  EXPECT_NE(find(targets, "llama.cpp").files[0].contents.find("cannot be expressed"), std::string::npos);
  for (const char* as : {"gguf", "hf", "vllm"}) {
    EXPECT_TRUE(find(targets, as).expressible);
    EXPECT_LE(find(targets, as).max_relative_frequency_error, 2e-7) << as;
    EXPECT_LE(find(targets, as).amplitude_error, 2e-7) << as;
    EXPECT_FALSE(find(targets, as).losses.empty());
  }
}

TEST(Export, Llama3) {
  Fixture f(500000, 128, 8192, 16384, "llama3:8");
  f.rule("llama3", "8");
  for (double& x : f.target.inv_freq) {
    const double wave = 2 * std::numbers::pi / x, t = (8192 / wave - 1) / 3;
    if (wave > 8192)
      x /= 8;
    else if (wave >= 8192 / 4.0)
      x *= (1 - t) / 8 + t;
  }
  const auto targets = f.run();
  EXPECT_FALSE(find(targets, "llama.cpp").expressible);
  EXPECT_LE(find(targets, "hf").max_relative_frequency_error, 1e-12);
  EXPECT_LE(find(targets, "gguf").max_relative_frequency_error, 2e-7);
  EXPECT_NE(find(targets, "hf").snippet.find("\"rope_type\": \"llama3\""), std::string::npos);
}

// An override that drops the base lets the server fall back to its default (the fault of cfg-override-drops-base).
TEST(Export, OverridesCarryTheBase_cfg_override_drops_base) {
  Fixture f(1000000, 128, 32768, 16384 * 8, "linear:4");
  for (double& x : f.target.inv_freq) x /= 4;
  const auto targets = f.run();
  EXPECT_NE(find(targets, "vllm").snippet.find("\"rope_theta\":1000000.0"), std::string::npos);
}

TEST(Export, NothingToSayForTheModelAsItIs) {
  Fixture f(100000, 64, 8192, 8192, "none");
  const auto targets = f.run();
  EXPECT_EQ(find(targets, "llama.cpp").snippet, "-c 8192");
  for (const ExportTarget& target : targets) EXPECT_EQ(target.max_relative_frequency_error, 0) << target.as;
}

TEST(Export, LocalLayersKeepTheirBase) {
  Fixture f(1000000, 256, 32768, 65536, "ntk:2");
  f.target = base_schedule(1000000 * std::pow(2.0, 256.0 / 254.0), 256);
  const RotarySchedule local = base_schedule(10000, 256);
  f.request.layers[0] = {&local, &local, false, 512};
  f.request.applied.layers = {{local, nullptr, 512}, {f.target, nullptr, 0}};
  const auto targets = export_setting(f.request).value();
  const auto hf = nlohmann::json::parse(find(targets, "hf").snippet);
  EXPECT_EQ(hf["transformers_5"]["rope_parameters"]["sliding_attention"]["rope_theta"], 10000.0);
  EXPECT_EQ(hf["transformers_4"]["rope_local_base_freq"], 10000.0);
  EXPECT_LE(find(targets, "hf").max_relative_frequency_error, 1e-12);
}

class Steps : public PairMap {
 public:
  Choice choose(PosRange, PosRange) const override { return {}; }
  const RotarySchedule& schedule(uint64_t) const override { return schedule_; }
  int64_t next_edge(int64_t m) const override { return m + 256; }

 private:
  RotarySchedule schedule_;
};

TEST(Export, StepsHaveNoCounterpart) {
  Fixture f(100000, 64, 8192, 16384, "dynamic:2");
  f.request.applied.layers.assign(2, {std::nullopt, std::make_shared<Steps>(), 0});
  const auto targets = export_setting(f.request).value();
  for (const ExportTarget& target : targets) {
    EXPECT_FALSE(target.expressible) << target.as;
    EXPECT_NE(target.files[0].contents.find("no counterpart"), std::string::npos) << target.as;
  }
}

TEST(Export, PartialRotationStaysPartial) {
  Fixture f(10000, 32, 2048, 16384, "ntk:8");
  f.target = base_schedule(10000 * std::pow(8.0, 32.0 / 30.0), 32);
  f.request.head_dim = 80;
  EXPECT_NE(find(f.run(), "hf").snippet.find("\"partial_rotary_factor\": 0.4"), std::string::npos);
}

TEST(Export, WritesWholeFilesOrNamesThePath) {
  const TemporaryFolder temporary;
  const std::filesystem::path folder = temporary / "out";
  Fixture f(10000, 64, 4096, 16384, "linear:4");
  for (double& x : f.target.inv_freq) x /= 4;
  ASSERT_TRUE(write_exports(folder.string(), f.run()));
  for (const char* name : {"llama.cpp.txt", "gguf-metadata.json", "hf.json", "vllm.txt"})
    EXPECT_TRUE(std::filesystem::exists(folder / "export" / name)) << name;
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(write_file_atomically(folder.string(), "a file, not a folder"));
  const auto failed = write_exports(folder.string(), f.run());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), ErrorCode::kIo);
  EXPECT_NE(failed.error().message().find(folder.string()), std::string::npos);
}

}  // namespace
}  // namespace ropewalk
