// What the attention tests share: random problems, toy terms and maps, and the comparison with the reference.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "ropewalk/attention.h"
#include "simd/attention_kernels.h"
#include "simd/test_targets.h"

namespace ropewalk::attention_testing {

struct Problem {
  int64_t queries = 8;
  int64_t keys = 8;
  int heads = 2;
  int key_heads = 1;
  int dim = 32;
  int value_dim = 32;
  int64_t first_position = 0;
  AttentionOptions options;
  AttentionInputs in;
  std::vector<float> q, k, v;
  std::vector<int64_t> q_pos, k_pos;
  std::vector<int32_t> q_segment, k_segment;
  std::vector<uint8_t> mask;
  RotarySchedule rotary;

  std::string name() const {
    return "T=" + std::to_string(queries) + " S=" + std::to_string(keys) + " H=" + std::to_string(heads) + "/" +
           std::to_string(key_heads) + " D=" + std::to_string(dim) + "/" + std::to_string(value_dim) +
           (options.causal ? " causal" : " full") + " W=" + std::to_string(options.reach.window) +
           " cap=" + std::to_string(options.softcap) + " q_index=" + std::to_string(in.q_index) +
           " p0=" + std::to_string(first_position);
  }
};

inline std::vector<float> normals(Random& random, int64_t count) {
  std::vector<float> x(static_cast<size_t>(count));
  for (float& value : x) value = static_cast<float>(random.normal());
  return x;
}

// Call again after a vector of the problem was replaced.
inline void connect(Problem& p) {
  p.in.q = heads_view(static_cast<const float*>(p.q.data()), p.queries, p.heads, p.dim);
  p.in.k = heads_view(static_cast<const float*>(p.k.data()), p.keys, p.key_heads, p.dim);
  p.in.v = heads_view(static_cast<const float*>(p.v.data()), p.keys, p.key_heads, p.value_dim);
  p.in.q_pos = p.q_pos;
  p.in.k_pos = p.k_pos;
  p.in.q_segment = p.q_segment;
  p.in.k_segment = p.k_segment;
  p.in.mask = p.mask.empty() ? nullptr : p.mask.data();
  p.in.mask_stride = p.keys;
}

// Normal data; keys at first_position .., queries the last ones unless q_index was set.
inline void fill(Problem& p, uint64_t seed = 1) {
  Random random(seed);
  p.q = normals(random, p.queries * p.heads * p.dim);
  p.k = normals(random, p.keys * p.key_heads * p.dim);
  p.v = normals(random, p.keys * p.key_heads * p.value_dim);
  if (p.in.q_index == 0) p.in.q_index = std::max<int64_t>(0, p.keys - p.queries);
  p.k_pos.resize(static_cast<size_t>(p.keys));
  std::iota(p.k_pos.begin(), p.k_pos.end(), p.first_position);
  p.q_pos.resize(static_cast<size_t>(p.queries));
  std::iota(p.q_pos.begin(), p.q_pos.end(), p.first_position + p.in.q_index);
  connect(p);
}

inline RotarySchedule plain_rope(int begin, int count, Pairing pairing, double theta = 10000) {
  RotarySchedule schedule;
  for (int i = 0; i < count / 2; ++i) schedule.inv_freq.push_back(std::pow(theta, -2.0 * i / count));
  schedule.rotated = {begin, count};
  schedule.pairing = pairing;
  schedule.theta = theta;
  return schedule;
}
inline void use_rope(Problem& p, Pairing pairing) {
  p.rotary = plain_rope(0, p.dim / 2 * 2, pairing);
  p.in.rotary = &p.rotary;
}

// Longest vector of [tokens][heads][dim].
inline double longest(const std::vector<float>& x, int dim) {
  double top = 0;
  for (size_t at = 0; at + static_cast<size_t>(dim) <= x.size(); at += static_cast<size_t>(dim)) {
    double sum = 0;
    for (int i = 0; i < dim; ++i)
      sum += static_cast<double>(x[at + static_cast<size_t>(i)]) * static_cast<double>(x[at + static_cast<size_t>(i)]);
    if (std::isfinite(sum)) top = std::max(top, std::sqrt(sum));
  }
  return top;
}

// Bound of |f32 attention - exact| for one output, u = 2^-24.
//  - A score is a sum of D products of values rounded up to 7 times each (table, amplitude, two products and a sum of the
//  rotation,
//    temperature), then scaled: random roundings of size u add up like a random walk (Higham, Mary 2019: lambda sqrt(n) u holds
//    but for a probability of 2 exp(-lambda^2 / 2); lambda = 4: 7e-4 a score at worst, and only if every rounding were
//    maximal), so e_s = 4 sqrt(D + 16) u B with B = |q| |k| scale * amplitude^2 * temperature. A soft cap and a toy term add 8
//    u (cap + |term|).
//  - A weight exp2(t - M) is right to 1.7e-7 and to e_s; numerator and denominator: twice.
//  - The sum of values runs over S keys in order: sqrt(S) again; sums of weights over S / lanes.
//  - All of it times the largest value (an output is a mean of values).
inline double f32_bound(const Problem& p, double term = 0, double gain = 1) {
  const double u = std::ldexp(1.0, -24);
  const double scale = p.options.scale > 0 ? p.options.scale : 1 / std::sqrt(p.dim);
  const double b = longest(p.q, p.dim) * longest(p.k, p.dim) * scale * gain;
  const double e_s = 4 * std::sqrt(p.dim + 16.0) * u * b + 8 * u * (p.options.softcap + term);
  double top = 0;
  for (const float x : p.v) top = std::isfinite(x) ? std::max(top, std::abs(static_cast<double>(x))) : top;
  return (2 * (e_s + 1.7e-7) + 8 * std::sqrt(static_cast<double>(p.keys) + 16) * u) * top;
}

inline std::vector<float> run(const Problem& p, bool reference = false) {
  std::vector<float> out(static_cast<size_t>(p.queries * p.heads * p.value_dim), 77.0F);
  const HeadsView view = heads_view(out.data(), p.queries, p.heads, p.value_dim);
  const auto done = reference ? attention_reference(p.in, p.options, view) : attention(p.in, p.options, view);
  EXPECT_TRUE(done) << (done ? "" : done.error().message());
  return out;
}

// NaN equals NaN; an infinity equals itself.
inline void expect_near(const std::vector<float>& got, const std::vector<float>& want, double bound, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    if (std::isinf(want[i]) && got[i] == want[i]) continue;
    ASSERT_NEAR(static_cast<double>(got[i]), static_cast<double>(want[i]), bound) << what << " at " << i;
  }
}

// The same for bf16, u = 2^-8 (rms u / sqrt(3)): q and k are rounded once each, so a score, a sum of D independent errors, is
// wrong by sqrt(2/3) u |q| |k| / sqrt(D) rms for data of even size over its dims; three times that is the bound. Weights and
// values are rounded once. Score terms stay in f32 (`term` is their size); the toy of values adds up to half the heads.
inline double bf16_bound(const Problem& p, double term, double gain) {
  const double u = std::ldexp(1.0, -8);
  const double scale = p.options.scale > 0 ? p.options.scale : 1 / std::sqrt(p.dim);
  const double b = longest(p.q, p.dim) * longest(p.k, p.dim) * scale * gain;
  const double e_s = 3 * std::sqrt(2.0 / 3) * u * b / std::sqrt(p.dim);
  double top = 0;
  for (const float x : p.v) top = std::isfinite(x) ? std::max(top, std::abs(static_cast<double>(x))) : top;
  if (p.in.value != nullptr) top += 0.5 * p.heads;
  return (std::expm1(std::min(2 * e_s, 1.0)) + 4 * u) * top + f32_bound(p, term, gain);
}

// On every SIMD target of this machine, in f32 and with every set of bf16 kernels.
inline void expect_reference(const Problem& p, double term = 0, double gain = 1) {
  const std::vector<float> want = run(p, true);
  Problem in_bf16 = p;  // its views still point into p
  in_bf16.options.compute = DType::kBF16;
  simd::on_each_target([&](const std::string& target) {
    expect_near(run(p), want, f32_bound(p, term, gain), target + ' ' + p.name());
    for (const AttentionKernels* set : bf16_attention_sets()) {
      set_bf16_attention_for_test(set);
      expect_near(run(in_bf16), want, bf16_bound(p, term, gain), target + ' ' + set->name + ' ' + p.name());
    }
    set_bf16_attention_for_test(nullptr);
  });
}

// ---- toys

class DistanceBias : public ScoreTerm {
 public:
  void add(const ScoreTile& tile, float* scores, int64_t stride) const override { add_to(tile, scores, stride); }
  void add(const ScoreTile& tile, double* scores, int64_t stride) const override { add_to(tile, scores, stride); }

 private:
  template <class T>
  static void add_to(const ScoreTile& tile, T* scores, int64_t stride) {
    const T slope = static_cast<T>(tile.head + 1) / static_cast<T>(4 * tile.heads);
    for (size_t r = 0; r < tile.q_pos.size(); ++r) {
      for (size_t c = 0; c < tile.k_pos.size(); ++c) {
        scores[static_cast<int64_t>(r) * stride + static_cast<int64_t>(c)] -=
            slope * static_cast<T>(std::abs(tile.q_pos[r] - tile.k_pos[c]));
      }
    }
  }
};

// scale * q[0] * k[last] / (1 + |d|)
class ContentTerm : public ScoreTerm {
 public:
  using ScoreTerm::add;
  explicit ContentTerm(int dim) : dim_(dim) {}
  void add(const ScoreTile& tile, float* scores, int64_t stride) const override {
    for (size_t r = 0; r < tile.q_pos.size(); ++r) {
      for (size_t c = 0; c < tile.k_pos.size(); ++c) {
        const auto d = static_cast<float>(std::abs(tile.q_pos[r] - tile.k_pos[c]));
        const float qk =
            tile.q[static_cast<int64_t>(r) * tile.q_stride] * tile.k[static_cast<int64_t>(c) * tile.k_stride + dim_ - 1];
        scores[static_cast<int64_t>(r) * stride + static_cast<int64_t>(c)] += static_cast<float>(tile.scale) * qk / (1 + d);
      }
    }
  }
  bool needs_content() const override { return true; }

 private:
  int dim_;
};

// v_n + (d mod 5) / 8 * (head + 1) in every dim
class ValueToy : public ValueTerm {
 public:
  explicit ValueToy(int dim) : dim_(dim) {}
  void add(const ScoreTile& tile, const float* weights, int64_t stride, float* out, int64_t out_stride) const override {
    for (size_t r = 0; r < tile.q_pos.size(); ++r) {
      float sum = 0;
      for (size_t c = 0; c < tile.k_pos.size(); ++c) {
        const auto d = static_cast<float>(std::abs(tile.q_pos[r] - tile.k_pos[c]) % 5);
        sum += weights[static_cast<int64_t>(r) * stride + static_cast<int64_t>(c)] * d / 8 * static_cast<float>(tile.head + 1);
      }
      for (int i = 0; i < dim_; ++i) out[static_cast<int64_t>(r) * out_stride + i] += sum;
    }
  }
  void backward(const ScoreTile& row, std::span<const double>, const float* out_gradient, std::span<double> gradient,
                EncodingGradients&) const override {
    double sum = 0;
    for (int i = 0; i < dim_; ++i) sum += static_cast<double>(out_gradient[i]);
    for (size_t c = 0; c < gradient.size(); ++c) {
      const auto d = static_cast<double>(std::abs(row.q_pos[0] - row.k_pos[c]) % 5);
      gradient[c] += d / 8 * (row.head + 1) * sum;
    }
  }

 private:
  int dim_;
};

// Near pairs (d < window) as they are; far ones at positions divided by `group`, with another schedule (after Self-Extend).
class NearFar : public PairMap {
 public:
  NearFar(RotarySchedule near, RotarySchedule far, int64_t window, int64_t group)
      : near_(std::move(near)), far_(std::move(far)), window_(window), group_(group) {}
  Choice choose(PosRange queries, PosRange keys) const override {
    if (queries.last - keys.first < window_) return {.sides = 1, .side = {0}};
    if (queries.first - keys.last >= window_) return {.sides = 1, .side = {1}};
    return {.sides = 2, .side = {0, 1}, .split = {window_}};
  }
  const RotarySchedule& schedule(uint64_t side) const override { return side == 0 ? near_ : far_; }
  void query_positions(uint64_t side, std::span<const int64_t> m, std::span<double> out) const override {
    for (size_t i = 0; i < m.size(); ++i) {
      out[i] = side == 0 ? static_cast<double>(m[i]) : static_cast<double>(m[i]) / static_cast<double>(group_) + 3.5;
    }
  }
  void key_positions(uint64_t side, std::span<const int64_t> n, std::span<double> out) const override {
    for (size_t i = 0; i < n.size(); ++i) {
      out[i] = static_cast<double>(n[i]) / (side == 0 ? 1.0 : static_cast<double>(group_));
    }
  }
  int64_t next_edge(int64_t) const override { return std::numeric_limits<int64_t>::max(); }

 private:
  RotarySchedule near_, far_;
  int64_t window_, group_;
};

// The query's position rounded up to a step decides the base of its row (after dynamic NTK by steps).
class Steps : public PairMap {
 public:
  Steps(int dim, int64_t step, int64_t count) : step_(step) {
    for (int64_t i = 0; i <= count; ++i) {
      schedules_.push_back(plain_rope(0, dim, Pairing::kHalves, 1000.0 * static_cast<double>(i + 1)));
      schedules_.back().amplitude = 1 + 0.01 * static_cast<double>(i);
    }
  }
  Choice choose(PosRange queries, PosRange) const override {
    EXPECT_EQ(queries.first / step_, queries.last / step_) << "a block of queries crosses an edge";
    return {.sides = 1, .side = {static_cast<uint64_t>(queries.first / step_)}};
  }
  const RotarySchedule& schedule(uint64_t side) const override { return schedules_.at(side); }
  int64_t next_edge(int64_t m) const override { return (m / step_ + 1) * step_; }

 private:
  int64_t step_;
  std::vector<RotarySchedule> schedules_;
};

}  // namespace ropewalk::attention_testing
