// The numbers of the two real models. The reference is the same GGUF files, de-quantized to float32, in PyTorch 2.15 with
// transformers 5.24. Tolerances are those that the project promises for `exact`: 0.0005 for a mean, 0.005 for a single value.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/machine.h"
#include "base/parallel.h"
#include "engine/forward.h"
#include "engine/sampler.h"

namespace ropewalk {
namespace {

std::string cache() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string own = variable("ROPEWALK_CACHE"); !own.empty()) return own;
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/ropewalk";
  return variable("HOME") + "/.cache/ropewalk";
}

constexpr const char* kSmolLm = "/smollm2-135m-instruct-q4_1.gguf";
constexpr const char* kGemma = "/gemma-3-270m-q4_k_m.gguf";

// scripts/fetch_models.sh fetches what is missing.
Model open(const char* name) { return Model::open(cache() + name).value(); }

std::vector<int32_t> hamlet(const Model& model, size_t count) {
  std::vector<int32_t> ids = model.tokenizer().encode(read_file(cache() + "/plays/hamlet_gut_f.txt").value());
  const TokenizerInfo& info = model.tokenizer().info();
  if (info.add_bos) ids.insert(ids.begin(), info.bos.value());
  ids.resize(count);
  return ids;
}

LayerPositions scheme(const Model& model, int64_t length) {
  return apply_setting(parse_setting("none").value(), model.spec(), length).value().layers;
}

ForwardOptions all_cores() {
  ForwardOptions options;
  options.threads = available_cores();
  return options;
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void expect_scores(const std::vector<double>& scores, double want, const std::array<double, 5>& first) {
  EXPECT_NEAR(mean(scores), want, 0.0005);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(scores[i], first[i], 0.005) << i;
}

// Stands first, so that the peak is this pass's also when all tests run in one process.
TEST(ModelForward, MemoryStaysBelowThePlan) {
  const Model model = open(kSmolLm);
  const auto ids = hamlet(model, 2048);
  ASSERT_TRUE(score_window(model, scheme(model, 2048), ids, {}, all_cores(), {}));
  EXPECT_LT(peak_resident_bytes(), score_memory(model.spec(), 2048, all_cores()));
  EXPECT_LT(score_memory(model.spec(), 32768, all_cores()), int64_t{2} << 30);
  const Model gemma = open(kGemma);
  EXPECT_LT(score_memory(gemma.spec(), 32768, all_cores()), int64_t{3} << 30);
}

TEST(ModelForward, SmolLm2On2048TokensOfHamlet) {
  const Model model = open(kSmolLm);
  const auto ids = hamlet(model, 2048);
  const auto scores = score_window(model, scheme(model, 2048), ids, {}, all_cores(), {}).value();
  ASSERT_EQ(scores.size(), 2047U);
  expect_scores(scores, 4.215559, {14.4604, 4.2211, 6.4226, 3.0839, 4.1454});
}

TEST(ModelForward, Gemma3On2048TokensOfHamlet) {
  const Model model = open(kGemma);
  const auto ids = hamlet(model, 2048);
  EXPECT_EQ(ids[0], 2);
  const auto scores = score_window(model, scheme(model, 2048), ids, {}, all_cores(), {}).value();
  ASSERT_EQ(scores.size(), 2047U);
  expect_scores(scores, 4.164563, {2.9374, 10.5836, 7.068, 1.8496, 2.6901});
  EXPECT_NEAR(mean(std::span(scores).first(1024)), 4.0259, 0.0005);
  EXPECT_NEAR(mean(std::span(scores).subspan(1024)), 4.3034, 0.0005);
}

// Fast means bf16 where the processor multiplies it, and exact elsewhere.
TEST(ModelForward, FastMeetsTheMean) {
  const Model model = open(kSmolLm);
  const auto ids = hamlet(model, 2048);
  ForwardOptions options = all_cores();
  options.precision = Precision::kFast;
  EXPECT_NEAR(mean(score_window(model, scheme(model, 2048), ids, {}, options, {}).value()), 4.215559, 0.01);
}

// The likeliest next token at each place, one token at a time, is what one prompt of the whole text predicts at its end; and
// log-likelihoods from the logits of single steps are those of the pass over the window.
TEST(ModelForward, TokenByTokenEqualsOnePass) {
  for (const char* name : {kSmolLm, kGemma}) {
    const Model model = open(name);
    const auto ids = hamlet(model, 40);
    const auto scores = score_window(model, scheme(model, 40), ids, {}, all_cores(), {}).value();
    Session steps = Session::make(model, scheme(model, 40), 40, all_cores()).value();
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto logits = steps.append(std::span(ids).subspan(i, 1), {}).value();
      if (i + 1 < ids.size()) {
        double sum = 0;
        const auto top = static_cast<double>(logits[static_cast<size_t>(greedy_token(logits))]);
        for (const float z : logits) sum += std::exp(static_cast<double>(z) - top);
        EXPECT_NEAR(top + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(ids[i + 1])]), scores[i], 0.002)
            << name << i;
      }
      if (i % 13 != 12) continue;
      Session whole = Session::make(model, scheme(model, 40), 40, all_cores()).value();
      EXPECT_EQ(greedy_token(whole.append(std::span(ids).first(i + 1), {}).value()), greedy_token(logits)) << name << i;
    }
  }
}

}  // namespace
}  // namespace ropewalk
