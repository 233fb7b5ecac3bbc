// The boundary: what attention refuses, and that both forms refuse the same.
#include "attention/inputs.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "attention/attention_testing.h"

namespace ropewalk {
namespace {

using namespace attention_testing;

struct Refused {
  const char* names;
  std::function<void(Problem&)> spoil;
};

TEST(AttentionInputs, WhatIsRefusedNamesWhatIsWrong) {
  const RotarySchedule rope = plain_rope(0, 16, Pairing::kHalves);
  const NearFar pairs(rope, rope, 4, 2);
  const Refused cases[] = {
      {"multiple of the 2 key heads", [](Problem& p) { p.in.q.heads = 3; }},
      {"q: expected at least 0 tokens", [](Problem& p) { p.in.q.heads = 0; }},
      {"q: expected at least 0 tokens", [](Problem& p) { p.in.q.tokens = -1; }},
      {"q: expected a head size", [](Problem& p) { p.in.q.dim = 513; }},
      {"k: expected the head size of q", [](Problem& p) { p.in.k.dim = 15; }},
      {"k: expected data", [](Problem& p) { p.in.k.data = nullptr; }},
      {"v: expected 6 tokens", [](Problem& p) { p.in.v.tokens = 5; }},
      {"v: expected 6 tokens and 2 heads", [](Problem& p) { p.in.v.heads = 1; }},
      {"q_pos: expected 6 positions", [](Problem& p) { p.in.q_pos = p.in.q_pos.first(5); }},
      {"k_pos: expected positions within", [](Problem& p) { p.k_pos[3] = std::numeric_limits<int64_t>::min(); }},
      {"q_index", [](Problem& p) { p.in.q_index = -1; }},
      {"segments: expected 6", [](Problem& p) { p.q_segment.assign(6, 0), p.in.q_segment = p.q_segment; }},
      {"mask_stride: expected at least 6",
       [](Problem& p) { p.mask.assign(36, 1), p.in.mask = p.mask.data(), p.in.mask_stride = 5; }},
      {"scale", [](Problem& p) { p.options.scale = -1; }},
      {"scale", [](Problem& p) { p.options.scale = std::numeric_limits<double>::quiet_NaN(); }},
      {"softcap", [](Problem& p) { p.options.softcap = std::numeric_limits<double>::infinity(); }},
      {"window", [](Problem& p) { p.options.reach.window = -2; }},
      {"threads", [](Problem& p) { p.options.threads = 0; }},
      {"compute: expected f32 or bf16, but got f16", [](Problem& p) { p.options.compute = DType::kF16; }},
      {"beside a pair map", [&](Problem& p) { p.in.rotary = &rope, p.in.pairs = &pairs; }},
      {"k_rotated", [](Problem& p) { p.in.k_rotated = true; }},
      {"rotary: expected a slice within 16 dims",
       [](Problem& p) { p.rotary = plain_rope(2, 16, Pairing::kHalves), p.in.rotary = &p.rotary; }},
      {"rotary: expected 2 dims a frequency", [](Problem& p) { use_rope(p, Pairing::kHalves), p.rotary.inv_freq.pop_back(); }},
  };
  for (const Refused& refused : cases) {
    Problem p;
    p.queries = p.keys = 6;
    p.heads = 4;
    p.key_heads = 2;
    p.dim = p.value_dim = 16;
    fill(p);
    refused.spoil(p);
    std::vector<float> out(6 * 4 * 16);
    const HeadsView view = heads_view(out.data(), 6, 4, 16);
    for (const bool reference : {false, true}) {
      const auto result = reference ? attention_reference(p.in, p.options, view) : attention(p.in, p.options, view);
      ASSERT_FALSE(result) << refused.names;
      EXPECT_EQ(result.error().code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(result.error().message().find(refused.names), std::string::npos) << result.error().message();
      EXPECT_NE(result.error().message().find(reference ? "[attention_reference]" : "[attention]"), std::string::npos);
    }
  }
}

TEST(AttentionInputs, OutputShapeAndType) {
  Problem p;
  p.queries = p.keys = 6;
  fill(p);
  std::vector<bf16_t> out(6 * 2 * 32);
  EXPECT_FALSE(attention(p.in, p.options, heads_view(out.data(), 6, 1, 32)));
  EXPECT_TRUE(attention(p.in, p.options, heads_view(out.data(), 6, 2, 32)));
  EXPECT_FALSE(attention_reference(p.in, p.options, heads_view(out.data(), 6, 2, 32)));
}

TEST(AttentionInputs, PositionsOutOfRangeOfATableAreAnError) {
  Problem p;
  p.queries = p.keys = 6;
  fill(p);
  use_rope(p, Pairing::kHalves);
  p.k_pos[2] = (int64_t{1} << 31) + 1;
  std::vector<float> out(6 * 2 * 32);
  const auto result = attention(p.in, p.options, heads_view(out.data(), 6, 2, 32));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(result.error().message().find("2147483649"), std::string::npos) << result.error().message();
}

}  // namespace
}  // namespace ropewalk
