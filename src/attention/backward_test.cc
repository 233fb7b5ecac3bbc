// Gradients of attention against central differences of the reference, in double, with everything that options and inputs can
// ask for. Those of every encoding are in tests/encodings_test.cc.
#include <gmock/gmock.h>

#include "attention/attention_testing.h"
#include "attention/reference.h"

namespace ropewalk {
namespace {

using namespace attention_testing;
using ::testing::HasSubstr;

struct Gradient {
  std::vector<float> q, k, v;
};

Gradient backward(const Problem& p, const std::vector<float>& loss, int threads = 1) {
  Gradient g{std::vector<float>(p.q.size(), 77), std::vector<float>(p.k.size(), 77), std::vector<float>(p.v.size(), 77)};
  AttentionOptions options = p.options;
  options.threads = threads;
  const auto done =
      attention_backward(p.in, options, heads_view(loss.data(), p.queries, p.heads, p.value_dim),
                         {heads_view(g.q.data(), p.queries, p.heads, p.dim), heads_view(g.k.data(), p.keys, p.key_heads, p.dim),
                          heads_view(g.v.data(), p.keys, p.key_heads, p.value_dim), nullptr});
  EXPECT_TRUE(done) << (done ? "" : done.error().message());
  return g;
}

void expect_differences(Problem& p, const std::string& what) {
  Random random(11);
  const std::vector<float> loss = normals(random, p.queries * p.heads * p.value_dim);
  const Gradient g = backward(p, loss);
  EXPECT_EQ(g.k, backward(p, loss, 3).k);
  std::vector<float> nothing(loss.size());
  const HeadsView shape = heads_view(nothing.data(), p.queries, p.heads, p.value_dim);
  const auto value = [&] {
    const auto rows = attention_reference_double(p.in, p.options, shape).value();
    double sum = 0;
    for (size_t i = 0; i < rows.size(); ++i) sum += rows[i] * static_cast<double>(loss[i]);
    return sum;
  };
  const auto compare = [&](const char* name, std::vector<float>& x, const std::vector<float>& by) {
    for (int check = 0; check < 12; ++check) {
      const size_t i = random.below(x.size());
      const float kept = x[i];
      x[i] = kept + 0x1p-8F;
      const double above = value(), high = static_cast<double>(x[i]);
      x[i] = kept - 0x1p-8F;
      const double below = value(), low = static_cast<double>(x[i]);
      x[i] = kept;
      EXPECT_NEAR((above - below) / (high - low), static_cast<double>(by[i]), 1e-3) << what << ' ' << name << ' ' << i;
    }
  };
  compare("q", p.q, g.q);
  compare("k", p.k, g.k);
  compare("v", p.v, g.v);
}

Problem small() {
  Problem p;
  p.queries = 7;
  p.keys = 12;
  p.heads = 4;
  p.key_heads = 2;
  p.dim = 10;
  p.value_dim = 6;
  p.first_position = 100;
  fill(p);
  return p;
}

TEST(Backward, OptionsAndInputs) {
  Problem plain = small();
  expect_differences(plain, "plain");
  Problem both = small();
  both.options.causal = false;
  expect_differences(both, "not causal");
  Problem capped = small();
  capped.options.softcap = 1.5;
  capped.options.scale = 0.8;
  expect_differences(capped, "soft cap and scale");
  Problem window = small();
  window.options.reach = {4, 101, 0};  // a sink: position 100
  expect_differences(window, "window and a sink");
  Problem chunks = small();
  chunks.options.reach.chunk = 5;
  expect_differences(chunks, "chunks");
  Problem masked = small();
  for (size_t i = 0; i < 7 * 12; ++i) masked.mask.push_back(i % 3 != 0 ? 1 : 0);
  masked.q_segment = {0, 0, 1, 1, -1, 1, 0};
  masked.k_segment = {0, 0, -1, 1, 1, 1, 0, 0, 1, 1, 0, 1};
  connect(masked);
  expect_differences(masked, "mask and segments");
  for (const Pairing pairing : {Pairing::kHalves, Pairing::kInterleaved}) {
    Problem turned = small();
    use_rope(turned, pairing);
    turned.rotary.rotated = {2, 8};
    turned.rotary.inv_freq.resize(4);
    turned.rotary.amplitude = 1.2;
    turned.rotary.softmax_multiplier = 0.7;
    turned.rotary.query_temperature = {QueryTemperature::Form::kMinistral, 0.3, 50};
    expect_differences(turned, "rotated slice");
    turned.rotary.decay = {-0.05, -0.03, -0.02, -0.001};
    expect_differences(turned, "decay");
    turned.rotary.decay.clear();
    turned.in.k_rotated = true;
    expect_differences(turned, "keys rotated before");
  }
  Problem maps = small();
  const NearFar near_far(plain_rope(0, 10, Pairing::kHalves), plain_rope(0, 10, Pairing::kInterleaved, 100), 4, 3);
  maps.in.pairs = &near_far;
  expect_differences(maps, "two sides");
  Problem axes = small();
  use_rope(axes, Pairing::kHalves);
  axes.rotary.axis = {0, 1, 0, 1, 1};
  std::vector<int64_t> q_axes, k_axes;
  for (int64_t i = 0; i < 14; ++i) q_axes.push_back(i * 5 % 7);
  for (int64_t i = 0; i < 24; ++i) k_axes.push_back(i * 3 % 11);
  axes.in.q_axes = q_axes;
  axes.in.k_axes = k_axes;
  expect_differences(axes, "axes");
  Problem valued = small();
  const ValueToy value(valued.value_dim);
  valued.in.value = &value;
  expect_differences(valued, "value term");
}

// Beyond one tile, and many sides that follow each other.
TEST(Backward, LongRowsAndManySides) {
  Problem p = small();
  p.queries = 3;
  p.keys = 600;
  p.in.q_index = 0;
  fill(p);
  use_rope(p, Pairing::kHalves);
  p.rotary.decay = {-0.01, -0.005, -0.004, -0.002, -0.001};
  expect_differences(p, "tiles");
  Problem steps = small();
  steps.queries = steps.keys = 40;
  steps.in.q_index = 0;
  fill(steps);
  const Steps map(10, 4, 50);
  steps.in.pairs = &map;
  expect_differences(steps, "steps");
}

TEST(Backward, WhatIsNotSeenHasNoGradient) {
  Problem p = small();
  p.k_segment.assign(12, 0);
  p.k_segment[5] = -1;
  p.q_segment.assign(7, 0);
  p.q_segment[2] = -1;
  for (int i = 0; i < 20; ++i) p.k[static_cast<size_t>(5 * 20 + i)] = NAN;  // padding may hold anything
  connect(p);
  Random random(2);
  const Gradient g = backward(p, normals(random, 7 * 4 * 6));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(g.k[static_cast<size_t>(5 * 20 + i)], 0);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(g.q[static_cast<size_t>(2 * 40 + i)], 0);
  for (const float x : g.q) EXPECT_TRUE(std::isfinite(x));
}

TEST(Backward, BadGradientsAreErrors) {
  Problem p = small();
  std::vector<float> out(7 * 4 * 6), q(p.q.size());
  AttentionGradients wrong;
  wrong.q = heads_view(q.data(), 7, 2, 20);
  const auto done = attention_backward(p.in, p.options, heads_view(out.data(), 7, 4, 6), wrong);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(),
              testing::AllOf(HasSubstr("q gradient"), HasSubstr("[7][4][10]"), HasSubstr("[7][2][20]")));
  EXPECT_FALSE(attention_backward(p.in, p.options, heads_view(out.data(), 7, 4, 5), {}));
  EXPECT_TRUE(attention_backward(p.in, p.options, heads_view(out.data(), 7, 4, 6), {}));
}

}  // namespace
}  // namespace ropewalk
