// Tiny models with golden data from transformers (golden.py): the reference and the fast pass against it and against each
// other, from both file formats, in one pass, in chunks and token by token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/testing_folder.h"
#include "engine/forward.h"
#include "engine/reference_forward.h"

namespace ropewalk {
namespace {

const std::string kFolder = std::string(ROPEWALK_SOURCE_DIR) + "/src/engine/golden/";

nlohmann::json golden() {
  std::ifstream in(kFolder + "golden.json");
  return nlohmann::json::parse(in);
}

// log-sum-exp in double.
double nll(std::span<const double> logits, int32_t target) {
  double top = logits[0], sum = 0;
  for (const double z : logits) top = std::max(top, z);
  for (const double z : logits) sum += std::exp(z - top);
  return top + std::log(sum) - logits[static_cast<size_t>(target)];
}

LayerPositions positions(const ModelSpec& spec, const std::string& setting, int64_t length) {
  return apply_setting(parse_setting(setting).value(), spec, length).value().layers;
}

// What golden.py computed runs in f32: a logit is the end of about 2 * layers + 1 products of up to 36 terms, each relative 36
// * 2^-24 in the worst case, through norms that keep the relative size: below (2 * 3 + 1) * 36 * 6e-8 = 1.5e-5 of the largest
// logit (about 10); its cos and sin come from angles rounded to f32, at most 19 * 2^-24 = 1e-6 more. The reference itself is
// exact to 1e-13.
constexpr double kGoldenTolerance = 2e-4;
// The fast pass in f32 against the double reference, of the largest logit: the same analysis without the angles, and the
// issue's bound.
constexpr double kFastTolerance = 1e-5;

struct Case {
  const char* name;  // in golden.json
  const char* file;  // below golden/
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.file; }

class GoldenModel : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const nlohmann::json all = golden();
    tokens_ = all.at("ids").get<std::vector<int32_t>>();
    logits_at_ = all.at("logits_at").get<std::vector<size_t>>();
    expected_ = all.at("models").at(GetParam().name);
  }
  std::vector<int32_t> tokens_;
  std::vector<size_t> logits_at_;
  nlohmann::json expected_;
};

TEST_P(GoldenModel, ReferenceAgreesWithTransformers) {
  const Model model = Model::open_weights(kFolder + GetParam().file).value();
  const auto v = static_cast<size_t>(model.spec().vocabulary);
  const auto logits = reference_forward(model.spec(), positions(model.spec(), "none", 19), tokens_).value();
  ASSERT_EQ(logits.size(), tokens_.size() * v);
  for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
    EXPECT_NEAR(nll(std::span(logits).subspan(i * v, v), tokens_[i + 1]), expected_["nll"][i].get<double>(), kGoldenTolerance)
        << i;
  }
  for (size_t r = 0; r < logits_at_.size(); ++r) {
    for (size_t z = 0; z < v; ++z)
      EXPECT_NEAR(logits[logits_at_[r] * v + z], expected_["logits"][r][z].get<double>(), kGoldenTolerance);
  }
}

TEST_P(GoldenModel, FastPassAgreesWithReference) {
  const Model model = Model::open_weights(kFolder + GetParam().file).value();
  const auto v = static_cast<size_t>(model.spec().vocabulary);
  for (const char* setting :
       {"none", "linear:2", "yarn:2:original=16", "dynamic:2:original=8:step=4", "dynamic:2:original=8:horizon=19"}) {
    const LayerPositions scheme = positions(model.spec(), setting, 19);
    const auto logits = reference_forward(model.spec(), scheme, tokens_).value();
    for (const int threads : {1, 3}) {
      ForwardOptions options;
      options.threads = threads;
      const auto scores = score_window(model, scheme, tokens_, {}, options, {}).value();
      ASSERT_EQ(scores.size(), tokens_.size() - 1);
      for (size_t i = 0; i < scores.size(); ++i) {
        const double want = nll(std::span(logits).subspan(i * v, v), tokens_[i + 1]);
        EXPECT_NEAR(scores[i], want, kFastTolerance * std::max(1.0, want)) << setting << " " << i;
      }
    }
  }
}

TEST_P(GoldenModel, SampledPositionsAreThoseOfTheFullPass) {
  const Model model = Model::open_weights(kFolder + GetParam().file).value();
  const LayerPositions scheme = positions(model.spec(), "none", 19);
  const auto all = score_window(model, scheme, tokens_, {}, {}, {}).value();
  WeightCache cache(weight_cache_bytes(model.spec(), Precision::kExact));
  ForwardOptions options;
  options.weights = &cache;
  const std::vector<int64_t> some = {0, 4, 5, 16};
  for (int pass = 0; pass < 2; ++pass) {  // the second from the cache
    const auto scores = score_window(model, scheme, tokens_, some, options, {}).value();
    ASSERT_EQ(scores.size(), some.size());
    for (size_t i = 0; i < some.size(); ++i) EXPECT_NEAR(scores[i], all[static_cast<size_t>(some[i])], 1e-5);
  }
  EXPECT_GT(cache.bytes(), 0);
}

TEST_P(GoldenModel, SessionsAgreeWithOnePass) {
  const Model model = Model::open_weights(kFolder + GetParam().file).value();
  const auto v = static_cast<size_t>(model.spec().vocabulary);
  for (const char* setting : {"none", "ntk:2", "dynamic:2:original=8:step=4"}) {
    const LayerPositions scheme = positions(model.spec(), setting, 19);
    const auto logits = reference_forward(model.spec(), scheme, tokens_).value();
    double size = 0;
    for (const double z : logits) size = std::max(size, std::abs(z));
    for (const size_t chunk :
         {size_t{1}, size_t{3}, size_t{10}, size_t{19}}) {  // below and above the border between the two paths
      Session session = Session::make(model, scheme, 19, {}).value();
      for (size_t at = 0; at < tokens_.size(); at += chunk) {
        const size_t count = std::min(chunk, tokens_.size() - at);
        const auto last = session.append(std::span(tokens_).subspan(at, count), {}).value();
        ASSERT_EQ(last.size(), v);
        for (size_t z = 0; z < v; ++z) {
          EXPECT_NEAR(static_cast<double>(last[z]), logits[(at + count - 1) * v + z], kFastTolerance * size)
              << setting << " " << chunk << " " << at;
        }
      }
      EXPECT_EQ(session.length(), 19);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenModel,
                         testing::Values(Case{"llama", "llama"}, Case{"llama", "llama.gguf"}, Case{"qwen2", "qwen2"},
                                         Case{"qwen2", "qwen2.gguf"}, Case{"gemma3", "gemma3"}, Case{"gemma3", "gemma3.gguf"}),
                         [](const auto& model) {
                           std::string name = model.param.file;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

// The same weights under a config with scaling.
TEST(GoldenVariants, ScalingInTheConfig) {
  const nlohmann::json all = golden();
  const auto tokens = all.at("ids").get<std::vector<int32_t>>();
  const TemporaryFolder folder;
  std::filesystem::copy_file(kFolder + "llama/model.safetensors", folder / "model.safetensors");
  for (const auto& [name, variant] : all.at("llama_variants").items()) {
    std::ifstream in(kFolder + "llama/config.json");
    nlohmann::json config = nlohmann::json::parse(in);
    config["rope_parameters"] = variant.at("rope_parameters");
    folder.write("config.json", config.dump());
    const Model model = Model::open_weights(folder.path()).value();
    const auto v = static_cast<size_t>(model.spec().vocabulary);
    const auto logits = reference_forward(model.spec(), positions(model.spec(), "none", 19), tokens).value();
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      EXPECT_NEAR(nll(std::span(logits).subspan(i * v, v), tokens[i + 1]), variant["nll"][i].get<double>(), kGoldenTolerance)
          << name << i;
    }
  }
}

}  // namespace
}  // namespace ropewalk
