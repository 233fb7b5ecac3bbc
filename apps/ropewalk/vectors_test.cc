#include "vectors.h"
#include "base/testing_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ropewalk::app {
namespace {

using testing::HasSubstr;

VectorsRequest request(const std::string& subject, std::vector<int64_t> positions) {
  VectorsRequest r;
  r.subject = subject;
  r.positions = std::move(positions);
  return r;
}

TEST(Vectors, FieldsAgreeWithEachOther) {
  auto r = request("yarn:4:beta_fast=16", {0, 1, 4095, 1048576, -7});
  r.head_dim = 10;
  r.rotary_dim = 6;
  for (const Pairing pairing : {Pairing::kHalves, Pairing::kInterleaved}) {
    r.pairing = pairing;
    const auto v = make_vectors(r).value();
    const auto body = vectors_body(v);
    ASSERT_EQ(body["q"].size(), 5U);
    ASSERT_EQ(body["inv_freq"].size(), 3U);
    const double amplitude = body["amplitude"];
    EXPECT_NEAR(amplitude, 0.1 * std::log(4) + 1, 1e-12);
    for (size_t t = 0; t < 5; ++t) {
      const double m = body["positions"][t];
      for (size_t i = 0; i < 3; ++i) {
        const double angle = m * body["inv_freq"][i].get<double>();
        const double c = amplitude * std::cos(angle), s = amplitude * std::sin(angle);
        // The double product is off by 2^-53 of at most 2^20; the float entry by half an ulp below 1.14.
        EXPECT_NEAR(body["cos"][t][i].get<double>(), c, 1e-7);
        EXPECT_NEAR(body["sin"][t][i].get<double>(), s, 1e-7);
        const size_t a = pairing == Pairing::kHalves ? i : 2 * i, b = pairing == Pairing::kHalves ? i + 3 : 2 * i + 1;
        const double x0 = body["q"][t][a], x1 = body["q"][t][b];
        EXPECT_NEAR(body["q_rotated"][t][a].get<double>(), x0 * c - x1 * s, 2e-6);
        EXPECT_NEAR(body["q_rotated"][t][b].get<double>(), x1 * c + x0 * s, 2e-6);
      }
      for (size_t j = 6; j < 10; ++j) EXPECT_EQ(body["q"][t][j], body["q_rotated"][t][j]);
      for (size_t n = 0; n < 5; ++n) {
        double sum = 0;
        for (size_t j = 0; j < 10; ++j) sum += body["q_rotated"][t][j].get<double>() * body["q_rotated"][n][j].get<double>();
        EXPECT_NEAR(body["scores"][t][n].get<double>(), sum / std::sqrt(10), 1e-12);
      }
    }
  }
}

TEST(Vectors, SeedDecidesTheQueries) {
  auto r = request("none", {3, 3});
  const auto a = make_vectors(r).value(), again = make_vectors(r).value();
  EXPECT_EQ(a.q, again.q);
  EXPECT_NE(a.q[0], a.q[1]);
  r.seed = 1;
  EXPECT_NE(make_vectors(r).value().q, a.q);
}

TEST(Vectors, StepsGiveEachRowItsSchedule) {
  auto r = request("dynamic:2:step=256", {2047, 2048, 4095});
  r.trained = 2048;
  const auto v = make_vectors(r).value();
  ASSERT_EQ(v.schedules.size(), 3U);
  EXPECT_NEAR(v.schedules[0].theta, 10000, 1e-8);
  EXPECT_NEAR(v.schedules[1].theta, 12544.35301611004, 1e-7);
  EXPECT_NEAR(v.schedules[2].theta, 30527.7367488067, 1e-7);
  EXPECT_EQ(vectors_body(v)["inv_freq_by_position"].size(), 3U);
  EXPECT_THAT(vectors_text(v), HasSubstr("depend on the position"));
}

TEST(Vectors, TemperatureIsInTheScores) {
  auto r = request("logn", {65535});
  r.trained = 8192;
  const auto v = make_vectors(r).value();
  double sum = 0;
  for (const float x : v.q_rotated[0]) sum += static_cast<double>(x) * static_cast<double>(x);
  EXPECT_NEAR(v.scores[0][0], 1.2307692307692308 * sum / std::sqrt(128), 1e-9);
}

TEST(Vectors, ReadsAConfig) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "config.json",
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_attention_heads": 8,
    "num_hidden_layers": 2, "max_position_embeddings": 8192, "rope_theta": 500000.0, "intermediate_size": 16, "vocab_size": 10})");
  auto r = request(path, {1, 8191});
  const auto v = make_vectors(r).value();
  EXPECT_EQ(v.head_dim, 8);
  EXPECT_EQ(v.layer, 0);
  EXPECT_NEAR(v.schedules[0].inv_freq[1], std::pow(500000.0, -0.25), 1e-12);
  r.setting = "linear:2";
  EXPECT_NEAR(make_vectors(r).value().schedules[0].inv_freq[0], 0.5, 1e-15);
  r.layer = 2;
  EXPECT_THAT(make_vectors(r).error().message(), HasSubstr("--layer 2"));
}

TEST(Vectors, BadSubjectsAreErrors) {
  EXPECT_THAT(make_vectors(request("yarrn:4", {1})).error().message(),
              testing::AllOf(HasSubstr("yarrn"), HasSubstr("no file")));
  EXPECT_FALSE(make_vectors(request("none", {})));
  EXPECT_THAT(make_vectors(request("none", {INT64_MAX})).error().message(), HasSubstr(std::to_string(INT64_MAX)));
  auto odd = request("none", {1});
  odd.rotary_dim = 7;
  EXPECT_FALSE(make_vectors(odd));
}

}  // namespace
}  // namespace ropewalk::app
