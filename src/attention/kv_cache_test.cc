#include "ropewalk/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "attention/attention_testing.h"

namespace ropewalk {
namespace {

using namespace attention_testing;

ConstHeadsView tokens_of(const ConstHeadsView& view, int64_t begin, int64_t count) {
  ConstHeadsView part = view;
  part.data = static_cast<const float*>(view.data) + begin * view.token_stride;
  part.tokens = count;
  return part;
}

KvCacheOptions options_of(const Problem& p, DType dtype = DType::kF32) {
  KvCacheOptions options;
  options.capacity = p.keys;
  options.heads = p.key_heads;
  options.dim = p.dim;
  options.value_dim = p.value_dim;
  options.dtype = dtype;
  if (p.in.rotary != nullptr) options.rotary = p.rotary;
  return options;
}

// The sequence of p (T = S) through a cache in chunks; 0 ends the list: the rest at once.
std::vector<float> by_chunks(const Problem& p, const std::vector<int64_t>& chunks, DType dtype = DType::kF32) {
  KvCache cache = KvCache::make(options_of(p, dtype)).value();
  std::vector<float> out(static_cast<size_t>(p.queries * p.heads * p.value_dim));
  int64_t done = 0;
  for (size_t c = 0; done < p.queries; c = (c + 1) % chunks.size()) {
    const int64_t count = chunks[c] == 0 ? p.queries - done : std::min(chunks[c], p.queries - done);
    cache.append(tokens_of(p.in.k, done, count), tokens_of(p.in.v, done, count), p.in.k_pos.subspan(done, count)).value();
    AttentionInputs in = cache.inputs(count);
    in.q = tokens_of(p.in.q, done, count);
    in.pairs = p.in.pairs;
    in.score = p.in.score;
    attention(in, p.options, heads_view(out.data() + done * p.heads * p.value_dim, count, p.heads, p.value_dim)).value();
    done += count;
  }
  return out;
}

Problem sequence(int64_t length) {
  Problem p;
  p.queries = p.keys = length;
  p.heads = 6;
  p.key_heads = 2;
  p.dim = 32;
  p.value_dim = 24;
  p.first_position = 1 << 20;
  return p;
}

const std::vector<int64_t> kChunkings[] = {{1}, {7}, {200, 1, 1, 0}, {64, 33}, {600}};

TEST(KvCache, AnySplitGivesWhatOnePassGives) {
  for (const int64_t window : {0, 50}) {
    for (const double cap : {0.0, 6.0}) {
      Problem p = sequence(600);
      p.options.reach.window = window;
      p.options.softcap = cap;
      fill(p);
      use_rope(p, window == 0 ? Pairing::kHalves : Pairing::kInterleaved);
      p.rotary.query_temperature = {QueryTemperature::Form::kMinistral, 0.1, 1 << 18};
      p.rotary.softmax_multiplier = 0.8;
      const std::vector<float> want = run(p);
      for (const auto& chunks : kChunkings) expect_near(by_chunks(p, chunks), want, 2 * f32_bound(p, 0, 2), p.name());
    }
  }
}

// Frequencies follow the position of the query by steps; keys stay un-rotated, so every split agrees.
TEST(KvCache, StepsOfQueriesOverUnrotatedKeys) {
  Problem p = sequence(400);
  p.first_position = 0;
  fill(p);
  const Steps pairs(p.dim, 64, 10);
  p.in.pairs = &pairs;
  const std::vector<float> want = run(p);
  EXPECT_FALSE(KvCache::make(options_of(p))->keys_rotated());
  for (const auto& chunks : kChunkings) expect_near(by_chunks(p, chunks), want, 2 * f32_bound(p, 0, 2), p.name());
}

TEST(KvCache, TruncatedAndFilledAgainEqualsFresh) {
  Problem p = sequence(300);
  fill(p);
  use_rope(p, Pairing::kHalves);
  KvCache cache = KvCache::make(options_of(p)).value();
  cache.append(p.in.k, p.in.v, p.in.k_pos).value();
  ASSERT_TRUE(cache.truncate(100));
  EXPECT_EQ(cache.length(), 100);
  cache.append(tokens_of(p.in.k, 0, 50), tokens_of(p.in.v, 0, 50), p.in.k_pos.first(50)).value();  // a draft, rejected
  ASSERT_TRUE(cache.truncate(100));
  cache.append(tokens_of(p.in.k, 100, 200), tokens_of(p.in.v, 100, 200), p.in.k_pos.subspan(100)).value();
  KvCache fresh = KvCache::make(options_of(p)).value();
  fresh.append(p.in.k, p.in.v, p.in.k_pos).value();
  const size_t bytes = static_cast<size_t>(p.keys * p.key_heads * p.dim) * sizeof(float);
  EXPECT_EQ(std::memcmp(cache.keys().data, fresh.keys().data, bytes), 0);
  EXPECT_TRUE(std::equal(cache.positions().begin(), cache.positions().end(), p.k_pos.begin(), p.k_pos.end()));
  cache.reset();
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(cache.keys().tokens, 0);
}

// A key is rounded once (relative 2^-9 in bf16, 2^-12 in f16): a score moves by at most that times B = |q||k| scale, by random
// signs 4 / sqrt(D) of it; a value as much of itself; weights twice that of scores.
TEST(KvCache, NarrowTypes) {
  for (const auto& [dtype, unit] : {std::pair{DType::kBF16, std::ldexp(1.0, -9)}, {DType::kF16, std::ldexp(1.0, -12)}}) {
    Problem p = sequence(200);
    fill(p);
    use_rope(p, Pairing::kHalves);
    const double b = longest(p.q, p.dim) * longest(p.k, p.dim) / std::sqrt(p.dim);
    const double bound = (2 * 4 / std::sqrt(p.dim) * b * unit + unit) * 4 + 2 * f32_bound(p);
    expect_near(by_chunks(p, {64}, dtype), run(p), bound, to_string(dtype));
  }
}

TEST(KvCache, MemoryIsKnownBeforeItIsTaken) {
  KvCacheOptions options;
  options.capacity = 1000;
  options.heads = 3;
  options.dim = 64;
  options.value_dim = 32;
  options.dtype = DType::kBF16;
  EXPECT_EQ(KvCache::memory(options).value(), 1000 * (3 * 96 * 2 + 8));
  options.capacity = std::numeric_limits<int64_t>::max() / 4;
  EXPECT_EQ(KvCache::memory(options).error().code(), ErrorCode::kTooLarge);
  EXPECT_EQ(KvCache::make(options).error().code(), ErrorCode::kTooLarge);
  options.capacity = int64_t{1} << 45;
  EXPECT_EQ(KvCache::make(options).error().code(), ErrorCode::kTooLarge);
}

TEST(KvCache, Errors) {
  Problem p = sequence(20);
  fill(p);
  use_rope(p, Pairing::kHalves);
  KvCache cache = KvCache::make(options_of(p)).value();
  cache.append(tokens_of(p.in.k, 0, 15), tokens_of(p.in.v, 0, 15), p.in.k_pos.first(15)).value();
  const auto code = [](const Result<void>& result) { return result.error().code(); };
  const auto six = p.in.k_pos.first(6);
  EXPECT_EQ(code(cache.append(tokens_of(p.in.k, 0, 6), tokens_of(p.in.v, 0, 6), six)), ErrorCode::kTooLarge);
  EXPECT_EQ(code(cache.append(tokens_of(p.in.k, 0, 5), tokens_of(p.in.v, 0, 5), six)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(cache.append(tokens_of(p.in.k, 0, 5), tokens_of(p.in.k, 0, 5), six.first(5))), ErrorCode::kInvalidArgument);
  const int64_t far[] = {int64_t{1} << 40};
  EXPECT_EQ(code(cache.append(tokens_of(p.in.k, 0, 1), tokens_of(p.in.v, 0, 1), far)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(cache.length(), 15);
  EXPECT_EQ(code(cache.truncate(16)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(cache.truncate(-1)), ErrorCode::kInvalidArgument);
  KvCacheOptions bad = options_of(p);
  bad.dim = 513;
  EXPECT_EQ(KvCache::make(bad).error().code(), ErrorCode::kInvalidArgument);
  bad = options_of(p);
  bad.rotary->rotated.begin = 2;
  EXPECT_EQ(KvCache::make(bad).error().code(), ErrorCode::kInvalidArgument);
  bad = options_of(p);
  bad.capacity = -1;
  EXPECT_EQ(KvCache::memory(bad).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ropewalk
