// The encodings against implementations that are not ours: src/encodings/golden.py says whose.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ropewalk/attention.h"
#include "ropewalk/encodings.h"

namespace ropewalk {
namespace {

using nlohmann::json;

const json& golden() {
  static const json all = json::parse(std::ifstream(std::string(ROPEWALK_SOURCE_DIR) + "/src/encodings/golden/encodings.json"));
  return all;
}

// As waves() of golden.py.
std::vector<float> waves(int64_t count, double start, double scale = 1) {
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(scale * std::sin(start + 0.7 * static_cast<double>(i)));
  return x;
}

EncodingWeight weight_of(const json& given) {
  EncodingWeight weight{given["name"], given["shape"].get<std::vector<int64_t>>(), {}};
  if (given.contains("values")) {
    weight.values = given["values"].get<std::vector<float>>();
    return weight;
  }
  int64_t count = 1;
  for (const int64_t size : weight.shape) count *= size;
  weight.values = waves(count, given["start"], given["scale"]);
  if (given.contains("abs")) {
    for (float& x : weight.values) x = static_cast<float>(std::abs(static_cast<double>(x)) + given["abs"].get<double>());
  }
  return weight;
}

TEST(EncodingsGolden, AttentionOutputs) {
  ASSERT_GE(golden()["attention"].size(), 48U);
  for (const json& c : golden()["attention"]) {
    const auto tokens = c["tokens"].get<int64_t>();
    const int heads = c["heads"], key_heads = c["key_heads"], dim = c["dim"];
    std::vector<EncodingWeight> weights;
    for (const json& given : c["weights"]) weights.push_back(weight_of(given));
    const auto made = make_encoding(c["encoding"].get<std::string>(), {heads, dim, int64_t{heads} * dim, 64, 0}, weights);
    ASSERT_TRUE(made) << made.error().message();
    const auto q = waves(tokens * heads * dim, 1), k = waves(tokens * key_heads * dim, 2),
               v = waves(tokens * key_heads * dim, 3);
    std::vector<int64_t> positions;
    for (int64_t t = 0; t < tokens; ++t) positions.push_back(c["first"].get<int64_t>() + t);
    const auto queries = c["queries"].get<int64_t>();  // the last ones
    const auto types = c["types"].get<std::vector<int32_t>>();
    std::vector<int64_t> k_axes, q_axes;
    for (const json& row : c["axes"]) {
      const auto axis = row.get<std::vector<int64_t>>();
      k_axes.insert(k_axes.end(), axis.begin(), axis.end());
      q_axes.insert(q_axes.end(), axis.end() - queries, axis.end());
    }
    AttentionInputs in;
    in.q = heads_view(q.data() + (tokens - queries) * heads * dim, queries, heads, dim);
    in.k = heads_view(k.data(), tokens, key_heads, dim);
    in.v = heads_view(v.data(), tokens, key_heads, dim);
    in.k_pos = positions;
    in.q_pos = in.k_pos.last(static_cast<size_t>(queries));
    in.q_index = tokens - queries;
    in.q_type = in.k_type = types;
    in.q_axes = q_axes;
    in.k_axes = k_axes;
    AttentionOptions options;
    use_encoding(*made, in, options);
    options.scale = c["scale"];
    options.causal = c["causal"];
    for (const bool reference : {false, true}) {
      std::vector<float> out(static_cast<size_t>(queries * heads * dim));
      const HeadsView view = heads_view(out.data(), queries, heads, dim);
      ASSERT_TRUE(reference ? attention_reference(in, options, view) : attention(in, options, view));
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(out[i]), c["out"][i].get<double>(), reference ? 2e-6 : 1e-5)
            << c["encoding"] << " at " << i;
      }
    }
  }
}

TEST(EncodingsGolden, Tables) {
  for (const json& c : golden()["tables"]) {
    const auto width = c["width"].get<int64_t>();
    const auto made = make_encoding(c["encoding"].get<std::string>(), {1, 1, width, 128, 0}).value();
    const auto positions = c["positions"].get<std::vector<int64_t>>();
    std::vector<float> x(positions.size() * static_cast<size_t>(width), 0.0F);
    ASSERT_TRUE(made.input->apply(positions, x.data(), width));
    for (size_t t = 0; t < positions.size(); ++t) {
      for (size_t i = 0; i < static_cast<size_t>(width); ++i) {
        // The tables of transformers are float32, angles included: m * 2^-24 at worst.
        ASSERT_NEAR(static_cast<double>(x[t * static_cast<size_t>(width) + i]), c["rows"][t][i].get<double>(), 1e-5)
            << c["encoding"] << ' ' << width << " position " << positions[t] << " dim " << i;
      }
    }
  }
}

// Every distance to 2^20 falls into the reference's bucket.
TEST(EncodingsGolden, T5Buckets) {
  for (const json& c : golden()["t5_edges"]) {
    const int buckets = c["buckets"];
    EncodingWeight table{"table", {buckets, 1}, {}};
    for (int b = 0; b < buckets; ++b) table.values.push_back(static_cast<float>(b));
    const std::string text = "t5:buckets=" + std::to_string(buckets) + ":max=" + std::to_string(c["max"].get<int>()) +
                             ":bidirectional=" + (c["bidirectional"].get<bool>() ? "1" : "0");
    const auto made = make_encoding(text, {1, 8, 8, 64, 0}, std::span(&table, 1)).value();
    constexpr int64_t kReach = 1 << 20;
    std::vector<double> ours(2 * kReach + 1);  // of d = -kReach ..
    made.score->by_distance()->fill(0, 1, -kReach, ours);
    const json& runs = c["runs"];
    for (size_t r = 0; r < runs.size(); ++r) {
      const int64_t end = r + 1 < runs.size() ? runs[r + 1][0].get<int64_t>() : kReach + 1;
      for (int64_t offset = runs[r][0].get<int64_t>(); offset < end; ++offset) {
        ASSERT_EQ(ours[static_cast<size_t>(kReach - offset)], runs[r][1].get<double>()) << text << " n - m = " << offset;
      }
    }
  }
}

}  // namespace
}  // namespace ropewalk
