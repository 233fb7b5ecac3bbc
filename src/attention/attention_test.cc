// The tiled kernel against the reference, which is double, naive, and shares no arithmetic with it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "attention/attention_testing.h"

namespace ropewalk {
namespace {

using namespace attention_testing;

Problem problem(int64_t queries, int64_t keys, int heads, int key_heads, int dim, int value_dim) {
  Problem p;
  p.queries = queries;
  p.keys = keys;
  p.heads = heads;
  p.key_heads = key_heads;
  p.dim = dim;
  p.value_dim = value_dim;
  return p;
}

TEST(Attention, HeadSizes) {
  for (const int dim : {1, 2, 3, 17, 32, 33, 64, 80, 96, 128, 129, 192, 256, 512}) {
    for (const bool causal : {true, false}) {
      Problem p = problem(37, 61, 2, 1, dim, dim);
      p.options.causal = causal;
      fill(p, static_cast<uint64_t>(dim));
      if (dim > 1) use_rope(p, dim % 2 == 0 ? Pairing::kHalves : Pairing::kInterleaved);
      expect_reference(p);
    }
  }
}

TEST(Attention, ValueSizeOfItsOwn) {
  for (const auto& [dim, value_dim] : {std::pair{64, 16}, {24, 100}, {192, 128}, {7, 65}, {576 / 3, 512}}) {
    Problem p = problem(50, 50, 3, 1, dim, value_dim);
    fill(p);
    expect_reference(p);
  }
}

TEST(Attention, LengthsAndGroups) {
  for (const auto& [queries, keys] :
       {std::pair<int64_t, int64_t>{1, 1}, {1, 700}, {2, 513}, {5, 255}, {97, 97}, {130, 257}, {256, 256}, {200, 613}}) {
    for (const auto& [heads, key_heads] : {std::pair{1, 1}, {3, 3}, {9, 3}, {5, 1}, {14, 2}}) {
      Problem p = problem(queries, keys, heads, key_heads, 32, 32);
      fill(p, static_cast<uint64_t>(queries + heads));
      use_rope(p, Pairing::kHalves);
      expect_reference(p);
    }
  }
}

TEST(Attention, ManyHeadsOnOneKeyHead) {
  for (const int heads : {71, 128, 200}) {  // one query is more than a block of rows
    Problem p = problem(3, 300, heads, 1, 24, 24);
    fill(p);
    expect_reference(p);
  }
}

TEST(Attention, Windows) {
  for (const int64_t window : {1, 2, 5, 64, 255, 256, 257, 1000}) {
    for (const bool causal : {true, false}) {
      for (const int64_t queries : {int64_t{4}, int64_t{600}}) {
        Problem p = problem(queries, 600, 2, 1, 16, 16);
        p.options.reach.window = window;
        p.options.causal = causal;
        fill(p);
        use_rope(p, Pairing::kInterleaved);
        expect_reference(p);
      }
    }
  }
}

TEST(Attention, SoftCapScaleAndHighScores) {
  for (const double cap : {0.0, 5.0, 50.0}) {
    for (const double scale : {0.0, 1.0, 4.0}) {  // scale 4: scores of hundreds, so maxima rise tile by tile
      Problem p = problem(60, 600, 2, 1, 48, 48);
      p.options.softcap = cap;
      p.options.scale = scale;
      fill(p);
      expect_reference(p);
    }
  }
}

TEST(Attention, MaximaThatRiseFromTileToTile) {
  Problem p = problem(40, 1500, 2, 1, 8, 8);
  p.options.causal = false;
  fill(p);
  for (int64_t j = 0; j < p.keys; ++j) {  // tiles run from far to near the start: every one tops the one before by far
    for (int i = 0; i < p.dim; ++i) p.k[static_cast<size_t>(j * p.dim + i)] *= static_cast<float>(1 + (p.keys - j) / 50);
  }
  expect_reference(p);
}

TEST(Attention, QueriesInTheMiddleOfTheKeys) {
  for (const int64_t q_index : {1, 100, 299, 1000}) {
    Problem p = problem(150, 300, 3, 1, 32, 32);
    p.in.q_index = q_index;
    fill(p);
    expect_reference(p);
  }
}

// A pure shift of all positions changes nothing but rounding: pos-shift-of-all-positions for a whole head.
TEST(Attention, PositionsShifted) {
  for (const int64_t shift : {-5, 1 << 20, 1 << 30}) {
    Problem p = problem(90, 300, 2, 1, 64, 64);
    fill(p);
    use_rope(p, Pairing::kHalves);
    p.options.reach.window = 77;
    const std::vector<float> at_zero = run(p);
    for (int64_t& m : p.q_pos) m += shift;
    for (int64_t& n : p.k_pos) n += shift;
    connect(p);
    expect_reference(p);
    expect_near(run(p), at_zero, 2 * f32_bound(p), p.name());
  }
}

TEST(Attention, SlicesAmplitudeMultiplierTemperature) {
  using Form = QueryTemperature::Form;
  for (const Pairing pairing : {Pairing::kHalves, Pairing::kInterleaved}) {
    for (const Slice slice : {Slice{0, 64}, {0, 20}, {44, 20}, {10, 38}, {0, 0}}) {
      for (const Form form : {Form::kNone, Form::kLlama4, Form::kMinistral, Form::kLogN}) {
        Problem p = problem(70, 120, 2, 1, 64, 64);
        fill(p);
        p.rotary = plain_rope(slice.begin, slice.count, pairing);
        p.rotary.amplitude = 1.2;
        p.rotary.softmax_multiplier = 0.7;
        p.rotary.query_temperature = {form, 0.3, 16};
        p.in.rotary = &p.rotary;
        expect_reference(p, 0, 3);
      }
    }
  }
}

TEST(Attention, KeysRotatedBefore) {
  for (const Pairing pairing : {Pairing::kHalves, Pairing::kInterleaved}) {
    for (const int64_t queries : {int64_t{3}, int64_t{200}}) {
      Problem p = problem(queries, 300, 2, 1, 32, 32);
      fill(p);
      p.rotary = plain_rope(4, 20, pairing);
      p.in.rotary = &p.rotary;
      const std::vector<float> want = run(p);
      const auto table = make_rotary_table(p.rotary, p.k_pos);
      ASSERT_TRUE(table);
      ASSERT_TRUE(rotate(p.rotary, *table, p.in.k, heads_view(p.k.data(), p.keys, p.key_heads, p.dim)));
      p.in.k_rotated = true;
      expect_near(run(p), want, 2 * f32_bound(p), p.name());
      expect_reference(p);
    }
  }
}

TEST(Attention, ScoreAndValueTerms) {
  for (const int64_t queries : {int64_t{3}, int64_t{300}}) {
    for (const int terms : {1, 2, 3, 4}) {
      Problem p = problem(queries, 300, 6, 2, 40, 24);
      fill(p);
      use_rope(p, Pairing::kHalves);
      const DistanceBias bias;
      const ContentTerm content(p.dim);
      const ValueToy value(p.value_dim);
      if (terms == 1) p.in.score = &bias;
      if (terms == 2) p.in.score = &content;
      if (terms >= 3) p.in.value = &value;
      if (terms == 4) p.in.score = &bias;
      if (terms == 4) p.options.reach.window = 120;
      expect_reference(p, terms == 1 || terms == 4 ? 100 : 10);
    }
  }
}

// pre-bf16-bias: four keys 8190 to 8193 away under a slope of 1/4. In bf16 all four biases are -2048; they are kept in f32 also
// where the products are bf16, so neighbouring weights differ by exp(1/4).
TEST(Attention, pre_bf16_bias) {
  Problem p = problem(1, 4, 2, 1, 16, 4);
  fill(p);
  std::fill(p.q.begin(), p.q.end(), 0.0F);
  for (size_t i = 0; i < p.v.size(); ++i) p.v[i] = i % 5 == 0 ? 1.0F : 0.0F;
  p.q_pos = {10000};
  p.k_pos = {1807, 1808, 1809, 1810};
  connect(p);
  const DistanceBias bias;  // of head 1: 1/4
  p.in.score = &bias;
  expect_reference(p, 4097);
  p.options.compute = DType::kBF16;
  const std::vector<float> out = run(p);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(out[5 + i] / out[4 + i], std::exp(0.25), 0.01) << i;
}

TEST(Attention, PairMapWithTwoSides) {
  for (const int64_t queries : {int64_t{2}, int64_t{400}}) {
    for (const int64_t window : {1, 100, 256, 5000}) {
      Problem p = problem(queries, 400, 2, 1, 32, 32);
      fill(p);
      RotarySchedule near = plain_rope(0, 32, Pairing::kHalves);
      RotarySchedule far = plain_rope(0, 16, Pairing::kInterleaved, 500);
      far.amplitude = 1.1;
      far.softmax_multiplier = 0.9;
      far.query_temperature = {QueryTemperature::Form::kLogN, 0.1, 64};
      const NearFar pairs(near, far, window, 4);
      p.in.pairs = &pairs;
      expect_reference(p, 0, 2);
      p.options.softcap = 8;
      p.options.reach.window = 333;
      expect_reference(p, 0, 2);
    }
  }
}

TEST(Attention, PairMapByStepsOfQueries) {
  for (const int64_t queries : {int64_t{1}, int64_t{7}, int64_t{420}}) {
    Problem p = problem(queries, 420, 3, 1, 32, 32);
    fill(p);
    const Steps pairs(p.dim, 50, 9);
    p.in.pairs = &pairs;
    expect_reference(p);
  }
}

// pos-packed-documents: documents of 20 and 5 tokens in one row, positions restart, tokens see their own document.
TEST(Attention, PackedDocuments) {
  for (const bool causal : {true, false}) {
    Problem p = problem(25, 25, 2, 1, 16, 16);
    p.options.causal = causal;
    fill(p);
    use_rope(p, Pairing::kHalves);
    p.k_segment.assign(25, 0);
    std::fill(p.k_segment.begin() + 20, p.k_segment.end(), 1);
    p.q_segment = p.k_segment;
    for (int64_t i = 0; i < 25; ++i) p.q_pos[static_cast<size_t>(i)] = p.k_pos[static_cast<size_t>(i)] = i < 20 ? i : i - 20;
    connect(p);
    expect_reference(p);
    const std::vector<float> both = run(p);
    // ... and each equals itself alone.
    Problem second = problem(5, 5, 2, 1, 16, 16);
    second.options.causal = causal;
    fill(second);
    use_rope(second, Pairing::kHalves);
    second.q.assign(p.q.end() - 5 * 2 * 16, p.q.end());
    second.k.assign(p.k.end() - 5 * 16, p.k.end());
    second.v.assign(p.v.end() - 5 * 16, p.v.end());
    connect(second);
    expect_near({both.end() - 5 * 2 * 16, both.end()}, run(second), 2 * f32_bound(p), "second document");
    // Values of 1: the weights of what a token sees add up to 1, whatever it is.
    std::fill(p.v.begin(), p.v.end(), 1.0F);
    for (const float x : run(p)) EXPECT_NEAR(x, 1.0F, 1e-6F);
  }
}

TEST(Attention, LongPackedDocumentsInAnyOrder) {
  Problem p = problem(900, 900, 2, 1, 16, 16);
  fill(p);
  p.k_segment.resize(900);
  for (int64_t i = 0; i < 900; ++i) {
    const int32_t documents[] = {3, 3, 0, 7, 7, 7, -1, 2, 5};
    p.k_segment[static_cast<size_t>(i)] = documents[i / 100];
    p.k_pos[static_cast<size_t>(i)] = i % 100;
  }
  p.q_segment = p.k_segment;
  p.q_pos = p.k_pos;
  connect(p);
  use_rope(p, Pairing::kHalves);
  for (const int64_t window : {0, 30}) {
    p.options.reach.window = window;
    expect_reference(p);
  }
  for (int64_t i = 0; i < 900; ++i)
    p.k_segment[static_cast<size_t>(i)] = static_cast<int32_t>(i % 3);  // interleaved: no runs at all
  p.q_segment = p.k_segment;
  connect(p);
  expect_reference(p);
}

// pos-left-padding-attention: a padded row gives what the row alone gives, with NaN in the padding; numbers of the case.
TEST(Attention, LeftPadding) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Problem p = problem(5, 5, 1, 1, 4, 2);
  fill(p);
  p.rotary = plain_rope(0, 4, Pairing::kHalves);
  p.in.rotary = &p.rotary;
  p.options.scale = 0.5;
  p.q = {nan, nan, nan, nan, nan, nan, nan, nan, 1, 0, 2, -1, 0, 1, 1, 2, 2, -1, 0, 1};
  p.k = {nan, nan, nan, nan, nan, nan, nan, nan, 1, 1, 0, 1, -1, 2, 1, 0, 0, 1, 2, 1};
  p.v = {nan, nan, nan, nan, 1, 0, 0, 1, 2, 2};
  p.k_segment = {-1, -1, 0, 0, 0};
  p.q_segment = p.k_segment;
  p.k_pos = {0, 0, 0, 1, 2};
  p.q_pos = p.k_pos;
  connect(p);
  const std::vector<float> out = run(p);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], 0.0F);
  EXPECT_NEAR(out[8], 1.2374059878875021, f32_bound(p));
  EXPECT_NEAR(out[9], 1.1652710547834462, f32_bound(p));
  expect_reference(p);
}

// pos-draft-tree: 100 cached tokens, a tree of 7 drafts; a token sees the cache and its ancestors, siblings share a position.
TEST(Attention, DraftTree) {
  const int parent[] = {-1, 0, 1, 1, 0, 4, 3};
  const int64_t positions[] = {100, 101, 102, 102, 101, 102, 103};
  const int visible[] = {101, 102, 103, 103, 102, 103, 104};
  Problem p = problem(7, 107, 4, 2, 32, 32);
  fill(p);
  use_rope(p, Pairing::kHalves);
  p.mask.assign(7 * 107, 0);
  for (int i = 0; i < 7; ++i) {
    p.q_pos[static_cast<size_t>(i)] = p.k_pos[static_cast<size_t>(100 + i)] = positions[i];
    std::fill_n(p.mask.begin() + i * 107, 100, uint8_t{1});
    for (int a = i; a >= 0; a = parent[a]) p.mask[static_cast<size_t>(i * 107 + 100 + a)] = 1;
    EXPECT_EQ(std::accumulate(p.mask.begin() + i * 107, p.mask.begin() + (i + 1) * 107, 0), visible[i]);
  }
  connect(p);
  expect_reference(p);
  // Keys that differ by one unit vector each show how many are seen.
  std::fill(p.k.begin(), p.k.end(), 0.0F);
  std::fill(p.v.begin(), p.v.end(), 1.0F);
  for (int64_t j = 0; j < 107; ++j) p.v[static_cast<size_t>(j * 2 * 32)] = j == 0 ? 1.0F : 0.0F;
  const std::vector<float> out = run(p);
  for (int i = 0; i < 7; ++i) EXPECT_NEAR(out[static_cast<size_t>(i * 4 * 32)], 1.0 / visible[i], 1e-7);
}

// pos-one-token-many-rows: with T = 1 every row of a batch is right, not only the first.
TEST(Attention, OneTokenManyRows) {
  const int rows = 3;
  const int64_t keys = 40;
  std::vector<std::vector<float>> alone;
  Problem packed = problem(rows, rows * keys, 16, 16, 256, 256);
  fill(packed);
  packed.options.causal = false;
  use_rope(packed, Pairing::kHalves);
  packed.q_segment = {0, 1, 2};
  packed.k_segment.resize(static_cast<size_t>(rows * keys));
  for (int64_t j = 0; j < rows * keys; ++j) {
    packed.k_segment[static_cast<size_t>(j)] = static_cast<int32_t>(j / keys);
    packed.k_pos[static_cast<size_t>(j)] = j % keys;
  }
  packed.q_pos.assign(rows, keys - 1);
  connect(packed);
  const std::vector<float> together = run(packed);
  for (int row = 0; row < rows; ++row) {
    Problem p = problem(1, keys, 16, 16, 256, 256);
    fill(p);
    use_rope(p, Pairing::kHalves);
    p.q.assign(packed.q.begin() + row * 16 * 256, packed.q.begin() + (row + 1) * 16 * 256);
    p.k.assign(packed.k.begin() + row * keys * 16 * 256, packed.k.begin() + (row + 1) * keys * 16 * 256);
    p.v.assign(packed.v.begin() + row * keys * 16 * 256, packed.v.begin() + (row + 1) * keys * 16 * 256);
    connect(p);
    expect_reference(p);
    expect_near({together.begin() + row * 16 * 256, together.begin() + (row + 1) * 16 * 256}, run(p), 2 * f32_bound(p), "row");
  }
}

TEST(Attention, RandomMask) {
  for (const int64_t queries : {int64_t{5}, int64_t{140}}) {
    Problem p = problem(queries, 530, 2, 1, 16, 16);
    fill(p);
    Random random(9);
    p.mask.resize(static_cast<size_t>(p.queries * p.keys));
    for (uint8_t& byte : p.mask) byte = static_cast<uint8_t>(random.below(3));
    std::fill_n(p.mask.begin(), p.keys, uint8_t{0});  // the first query sees nothing
    connect(p);
    const std::vector<float> out = run(p);
    for (int i = 0; i < 2 * 16; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], 0.0F);
    expect_reference(p);
  }
}

TEST(Attention, PositionsInAnyOrder) {
  Problem p = problem(200, 600, 2, 1, 16, 16);
  fill(p);
  Random random(4);
  for (int64_t& n : p.k_pos) n = static_cast<int64_t>(random.below(1000)) + (1 << 20);
  for (int64_t& m : p.q_pos) m = static_cast<int64_t>(random.below(1000)) + (1 << 20);
  connect(p);
  use_rope(p, Pairing::kHalves);
  for (const bool causal : {true, false}) {
    p.options.causal = causal;
    p.options.reach.window = 100;
    expect_reference(p);
  }
}

TEST(Attention, NotANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const int64_t queries : {int64_t{6}, int64_t{300}}) {
    for (const float bad : {nan, inf, -inf}) {
      Problem p = problem(queries, 300, 4, 2, 24, 24);
      fill(p);
      const int64_t at = p.keys - p.queries / 2;  // seen by the later half
      p.k[static_cast<size_t>((at * 2 + 0) * 24 + 5)] = bad;
      p.v[static_cast<size_t>((at * 2 + 1) * 24 + 7)] = bad;
      p.q[static_cast<size_t>((p.queries - 2) * 4 * 24 + 3)] = bad;
      expect_reference(p);
      p.options.reach.window = 3;  // ... and by three
      expect_reference(p);
      const std::vector<float> out = run(p);
      EXPECT_TRUE(std::isfinite(out[0]));
      const auto query = static_cast<size_t>(at - p.in.q_index);
      EXPECT_TRUE(std::isnan(out[query * 4 * 24])) << "key head 0";
      EXPECT_FALSE(std::isfinite(out[(query * 4 + 2) * 24 + 7])) << "key head 1, the dim of the value";
      EXPECT_TRUE(std::isfinite(out[(query * 4 + 2) * 24 + 6])) << "key head 1, the dim beside it";
    }
  }
}

TEST(Attention, NothingToSee) {
  Problem none = problem(3, 0, 2, 1, 16, 8);
  fill(none);
  for (const float x : run(none)) EXPECT_EQ(x, 0.0F);
  Problem no_queries = problem(0, 5, 2, 1, 16, 8);
  fill(no_queries);
  EXPECT_TRUE(run(no_queries).empty());
}

TEST(Attention, SameBytesForAnyThreadCount) {
  for (const int64_t queries : {int64_t{1}, int64_t{40}, int64_t{400}}) {
    Problem p = problem(queries, 1500, 6, 2, 32, 32);
    fill(p);
    use_rope(p, Pairing::kHalves);
    const std::vector<float> one = run(p);
    for (const int threads : {2, 3, 8}) {
      p.options.threads = threads;
      const std::vector<float> more = run(p);
      EXPECT_EQ(std::memcmp(one.data(), more.data(), one.size() * sizeof(float)), 0) << threads;
    }
  }
}

TEST(Attention, StridesAndNarrowTypes) {
  // One buffer [T][H + 2 Hkv][D], as a fused projection leaves it, in bf16 and f16; output in both.
  Problem p = problem(70, 70, 4, 2, 40, 40);
  fill(p);
  const int all = 8;
  std::vector<bf16_t> wide(static_cast<size_t>(70 * all * 40));
  std::vector<f16_t> half(wide.size());
  Random random(3);
  for (size_t i = 0; i < wide.size(); ++i) {
    wide[i] = to_bf16(static_cast<float>(random.normal()));
    half[i] = to_f16(to_f32(wide[i]));  // 8 bits fit into 11
  }
  const auto part = [&](const void* data, DType dtype, int head, int heads) {
    ConstHeadsView view;
    view.data = static_cast<const uint16_t*>(data) + head * 40;
    view.dtype = dtype;
    view.tokens = 70;
    view.heads = heads;
    view.dim = 40;
    view.token_stride = all * 40;
    view.head_stride = 40;
    return view;
  };
  std::vector<std::vector<float>> results;
  for (const auto& [data, dtype] : {std::pair<const void*, DType>{wide.data(), DType::kBF16}, {half.data(), DType::kF16}}) {
    p.in.q = part(data, dtype, 0, 4);
    p.in.k = part(data, dtype, 4, 2);
    p.in.v = part(data, dtype, 6, 2);
    expect_reference(p);
    results.push_back(run(p));
  }
  for (size_t i = 0; i < results[0].size(); ++i) ASSERT_EQ(results[0][i], results[1][i]);
  std::vector<bf16_t> out16(results[0].size());
  ASSERT_TRUE(attention(p.in, p.options, heads_view(out16.data(), 70, 4, 40)));
  for (size_t i = 0; i < out16.size(); ++i) ASSERT_EQ(out16[i].bits, to_bf16(results[0][i]).bits);
}

}  // namespace
}  // namespace ropewalk
