#include "ropewalk/attention.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/fail.h"
#include "base/machine.h"
#include "ropewalk/encodings.h"
#include "workbench/bench/cases.h"
#include "workbench/bench/random_fill.h"

namespace ropewalk {
namespace {

struct Problem {
  BenchTensor q, k, v;
  std::vector<float> out;
  std::vector<int64_t> positions;
  RotarySchedule schedule;
  PositionEncoding encoding;
  AttentionInputs inputs;
  AttentionOptions options;
  HeadsView out_view;
};

ConstHeadsView view_of(const BenchTensor& x, int64_t tokens, int heads, int dim) {
  return HeadsView{const_cast<std::byte*>(x.bytes.data()), x.dtype, tokens, heads, dim, int64_t{heads} * dim, dim};
}

// `queries` rows at the end of `keys` keys.
Result<void> make_problem(const AttentionBench& setup, const BenchOptions& options, int64_t queries, int64_t keys,
                          DType kv_type, Problem& p) {
  if (setup.heads % setup.kv_heads != 0) {
    return fail(ErrorCode::kInvalidArgument, "[bench] expected a number of heads that {} key heads divide, but got {}",
                setup.kv_heads, setup.heads);
  }
  const Threads threads{options.threads};
  const int64_t dim = setup.head_dim;
  ROPEWALK_TRY(p.q, random_tensor(DType::kF32, queries * setup.heads * dim, options.seed, 1, threads));
  ROPEWALK_TRY(p.k, random_tensor(kv_type, keys * setup.kv_heads * dim, options.seed, 2, threads));
  ROPEWALK_TRY(p.v, random_tensor(kv_type, keys * setup.kv_heads * dim, options.seed, 3, threads));
  p.out.resize(static_cast<size_t>(queries * setup.heads * dim));
  p.positions.resize(static_cast<size_t>(keys));
  std::iota(p.positions.begin(), p.positions.end(), int64_t{0});
  p.inputs.q = view_of(p.q, queries, setup.heads, setup.head_dim);
  p.inputs.k = view_of(p.k, keys, setup.kv_heads, setup.head_dim);
  p.inputs.v = view_of(p.v, keys, setup.kv_heads, setup.head_dim);
  p.inputs.q_pos = std::span(p.positions).last(static_cast<size_t>(queries));
  p.inputs.k_pos = p.positions;
  p.inputs.q_index = keys - queries;
  if (setup.rotate) {
    ROPEWALK_TRY(p.schedule, make_rotary_schedule(10000, setup.head_dim / 2 * 2, setup.head_dim, Pairing::kHalves));
    p.inputs.rotary = &p.schedule;
  }
  p.options.causal = setup.causal;
  p.options.reach.window = setup.window;
  p.options.compute = setup.compute;
  p.options.threads = options.threads;
  p.out_view = heads_view(p.out.data(), queries, setup.heads, setup.head_dim);
  return {};
}

// Relative rms error of sampled rows of p.out against the reference, the worst row.
Result<double> worst_row_error(const Problem& p) {
  double worst = 0;
  const int64_t queries = p.inputs.q.tokens, width = int64_t{p.out_view.heads} * p.out_view.dim;
  std::vector<float> expected(static_cast<size_t>(width));
  for (const int64_t row : {int64_t{0}, queries / 3, queries / 2, queries - 1}) {
    AttentionInputs one = p.inputs;
    one.q.tokens = 1;
    one.q.data = static_cast<const float*>(p.inputs.q.data) + row * p.inputs.q.token_stride;
    one.q_pos = p.inputs.q_pos.subspan(static_cast<size_t>(row), 1);
    one.q_index = p.inputs.q_index + row;
    ROPEWALK_CHECK_OK(attention_reference(one, p.options, heads_view(expected.data(), 1, p.out_view.heads, p.out_view.dim)));
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < width; ++i) {
      const double want = static_cast<double>(expected[static_cast<size_t>(i)]);
      const double got = static_cast<double>(p.out[static_cast<size_t>(row * width + i)]);
      difference += (got - want) * (got - want);
      norm += want * want;
    }
    // A NaN must not pass for a small error.
    const double error = std::sqrt(difference / norm);
    worst = error <= worst ? worst : std::isnan(error) ? 1.0 : error;
  }
  return worst;
}

// Relative rms of a row. f32: each score is a sum of D rounded products, each output a sum of up to S. Rounding errors are
// independent of each other, so they grow as the root of the number of terms; 8 covers the constants, exp and the merges of
// tiles. bf16: q, k, v and the weights are rounded, each by at most 2^-8 and about 2^-9 rms, relative. Scores of variance 1 are
// then off by sqrt(2) 2^-9 rms, weights by as much relative, so together sqrt(2 + 1 + 1) 2^-9; three times that is allowed.
double error_bound(DType compute, int dim, int64_t keys) {
  if (compute == DType::kBF16) return 6 * 0x1p-9;
  return 8 * std::sqrt(static_cast<double>(dim + keys)) * 0x1p-24;
}

double visible_pairs(const AttentionOptions& options, int64_t tokens) {
  const Reach& reach = options.reach;
  double pairs = 0;
  for (int64_t i = 0; i < tokens; ++i) {
    int64_t behind = reach.chunk > 0 ? i % reach.chunk + 1 : i + 1;
    if (reach.window > 0 && behind > reach.window) behind = reach.window + std::min(reach.sinks, behind - reach.window);
    const int64_t ahead = options.causal ? 0 : std::min(tokens - 1 - i, reach.window > 0 ? reach.window - 1 : tokens);
    pairs += static_cast<double>(behind + ahead);
  }
  return pairs;
}

// The encoding into the inputs, made for this shape.
Result<void> use_encoding(const AttentionBench& setup, const std::string& text, int64_t tokens, uint64_t seed, Problem& p) {
  const EncodingContext context = {setup.heads, setup.head_dim, int64_t{setup.heads} * setup.head_dim, tokens, seed};
  ROPEWALK_TRY(p.encoding, make_encoding(text, context));
  if (p.encoding.input != nullptr && p.encoding.score == nullptr && !p.encoding.rotary)
    return fail(ErrorCode::kInvalidArgument, "[bench] expected an encoding that acts in attention, but got {}", text);
  if (p.inputs.rotary != nullptr && (p.encoding.rotary || p.encoding.pairs != nullptr))
    return fail(ErrorCode::kInvalidArgument, "[bench] expected an encoding without a rotation beside --rotate, but got {}",
                text);
  const RotarySchedule* rotary = p.inputs.rotary;
  const int64_t window = p.options.reach.window;
  ropewalk::use_encoding(p.encoding, p.inputs, p.options);
  if (rotary != nullptr) p.inputs.rotary = rotary;
  if (window > 0) p.options.reach.window = window;
  return {};
}

// How much longer the work takes than without the encoding: both in turns, the median of the ratios.
Result<double> cost_of_encoding(const Problem& p, int64_t window, int runs) {
  AttentionInputs plain = p.inputs;
  plain.score = nullptr;
  plain.value = nullptr;
  plain.pairs = nullptr;
  if (p.encoding.rotary || p.encoding.pairs != nullptr) plain.rotary = nullptr;
  AttentionOptions plain_options = p.options;
  plain_options.reach = {};
  plain_options.reach.window = window;
  std::vector<double> ratios;
  for (int i = 0; i < runs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    ROPEWALK_CHECK_OK(attention(plain, plain_options, p.out_view));
    const auto middle = std::chrono::steady_clock::now();
    ROPEWALK_CHECK_OK(attention(p.inputs, p.options, p.out_view));
    const auto end = std::chrono::steady_clock::now();
    ratios.push_back(std::chrono::duration<double>(end - middle) / std::chrono::duration<double>(middle - begin));
  }
  return median(ratios);
}

Result<BenchRow> bench_prefill(const AttentionBench& setup, const std::string& encoding, int64_t tokens, const Limit& limit,
                               const BenchOptions& options, const Control& control, BenchReport& report) {
  Problem p;
  ROPEWALK_CHECK_OK(make_problem(setup, options, tokens, tokens, DType::kF32, p));
  if (!encoding.empty()) ROPEWALK_CHECK_OK(use_encoding(setup, encoding, tokens, options.seed, p));
  BenchRow row;
  row.name = "attention";
  row.setup = {{"tokens", tokens},
               {"heads", setup.heads},
               {"kv_heads", setup.kv_heads},
               {"head_dim", setup.head_dim},
               {"window", setup.window},
               {"causal", setup.causal},
               {"compute", to_string(setup.compute)},
               {"rotate", setup.rotate},
               {"threads", options.threads}};
  const int64_t before = restart_peak_resident();
  ROPEWALK_CHECK_OK(attention(p.inputs, p.options, p.out_view));
  if (before >= 0) row.memory = std::max<int64_t>(0, peak_resident_bytes() - before);
  ROPEWALK_TRY(row.error, worst_row_error(p));
  row.checked = row.error <= error_bound(setup.compute, setup.head_dim, tokens);
  const double giga_flop = 4.0 * setup.head_dim * setup.heads * visible_pairs(p.options, tokens) / 1e9;
  ROPEWALK_CHECK_OK(measure(
      options, limit, giga_flop, [&] { return attention(p.inputs, p.options, p.out_view); }, control, row, report));
  if (!encoding.empty()) {
    row.setup["encoding"] = encoding;
    ROPEWALK_TRY(row.cost, cost_of_encoding(p, setup.window, options.min_runs));
  }
  return row;
}

Result<BenchRow> bench_step(const AttentionBench& setup, int64_t keys, const Limit& limit, const BenchOptions& options,
                            const Control& control, BenchReport& report) {
  Problem p;
  ROPEWALK_CHECK_OK(make_problem(setup, options, 1, keys, setup.cache, p));
  BenchRow row;
  row.name = "decode";
  row.setup = {
      {"keys", keys},           {"heads", setup.heads},   {"kv_heads", setup.kv_heads},      {"head_dim", setup.head_dim},
      {"window", setup.window}, {"rotate", setup.rotate}, {"cache", to_string(setup.cache)}, {"threads", options.threads}};
  ROPEWALK_CHECK_OK(attention(p.inputs, p.options, p.out_view));
  ROPEWALK_TRY(row.error, worst_row_error(p));
  row.checked = row.error <= error_bound(DType::kF32, setup.head_dim, keys);
  const int64_t seen = setup.window > 0 ? std::min(setup.window, keys) : keys;
  const double giga_bytes =
      2.0 * static_cast<double>(seen) * setup.kv_heads * setup.head_dim * static_cast<double>(size_of(setup.cache)) / 1e9;
  ROPEWALK_CHECK_OK(measure(
      options, limit, giga_bytes, [&] { return attention(p.inputs, p.options, p.out_view); }, control, row, report));
  return row;
}

// Gradients by everything, against one forward pass of plain attention. The answer is held to what any encoding without a value
// term obeys: outputs are linear in v, so sum dv v = sum do o.
Result<BenchRow> bench_backward(const AttentionBench& setup, const std::string& encoding, int64_t tokens, const Limit& limit,
                                const BenchOptions& options, const Control& control, BenchReport& report) {
  Problem p;
  ROPEWALK_CHECK_OK(make_problem(setup, options, tokens, tokens, DType::kF32, p));
  if (!encoding.empty()) ROPEWALK_CHECK_OK(use_encoding(setup, encoding, tokens, options.seed, p));
  BenchRow row;
  row.name = "attention_backward";
  row.setup = {{"tokens", tokens},       {"heads", setup.heads},   {"kv_heads", setup.kv_heads}, {"head_dim", setup.head_dim},
               {"window", setup.window}, {"causal", setup.causal}, {"rotate", setup.rotate},     {"threads", options.threads}};
  if (!encoding.empty()) row.setup["encoding"] = encoding;
  const size_t width = static_cast<size_t>(setup.head_dim);
  std::vector<float> q(p.out.size()), k(static_cast<size_t>(tokens * setup.kv_heads) * width), v(k.size());
  EncodingGradients weights;
  const AttentionGradients to = {heads_view(q.data(), tokens, setup.heads, setup.head_dim),
                                 heads_view(k.data(), tokens, setup.kv_heads, setup.head_dim),
                                 heads_view(v.data(), tokens, setup.kv_heads, setup.head_dim), &weights};
  ROPEWALK_CHECK_OK(attention(p.inputs, p.options, p.out_view));
  const ConstHeadsView by_out = p.inputs.q;  // some gradient of the right shape
  const int64_t before = restart_peak_resident();
  ROPEWALK_CHECK_OK(attention_backward(p.inputs, p.options, by_out, to));
  if (before >= 0) row.memory = std::max<int64_t>(0, peak_resident_bytes() - before);
  double left = 0, right = 0, size = 0;
  const auto* values = static_cast<const float*>(p.inputs.v.data);
  const auto* loss = static_cast<const float*>(by_out.data);
  for (size_t i = 0; i < v.size(); ++i) left += static_cast<double>(v[i]) * static_cast<double>(values[i]);
  for (size_t i = 0; i < p.out.size(); ++i) {
    const double term = static_cast<double>(p.out[i]) * static_cast<double>(loss[i]);
    right += term;
    size += term * term;
  }
  const auto finite = [](const std::vector<float>& x) {
    return std::all_of(x.begin(), x.end(), [](float y) { return std::isfinite(y); });
  };
  row.error = p.inputs.value == nullptr ? std::abs(left - right) / std::sqrt(size) : 0;
  row.checked = row.error <= 1e-3 && finite(q) && finite(k) && finite(v);
  std::vector<double> forward;
  AttentionInputs plain = p.inputs;
  plain.score = nullptr;
  plain.value = nullptr;
  plain.pairs = nullptr;
  if (p.encoding.rotary || p.encoding.pairs != nullptr) plain.rotary = nullptr;
  AttentionOptions plain_options = p.options;
  plain_options.reach = {};
  plain_options.reach.window = setup.window;
  for (int i = 0; i < options.min_runs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    ROPEWALK_CHECK_OK(attention(plain, plain_options, p.out_view));
    forward.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  // Five products where forward has two.
  const double giga_flop = 2.5 * 4.0 * setup.head_dim * setup.heads * visible_pairs(p.options, tokens) / 1e9;
  ROPEWALK_CHECK_OK(measure(
      options, limit, giga_flop, [&] { return attention_backward(p.inputs, p.options, by_out, to); }, control, row, report));
  row.cost = row.median_ms / 1000 / median(forward);
  return row;
}

}  // namespace

Result<BenchReport> bench_attention(const AttentionBench& setup, const BenchOptions& options, const Control& control) {
  BenchReport report;
  const Limit limit = setup.compute == DType::kBF16 ? bf16_limit(options) : f32_limit(options);
  for (const int64_t tokens : setup.tokens) {
    for (const std::string& encoding : setup.encodings) {
      ROPEWALK_TRY(BenchRow row, bench_prefill(setup, encoding, tokens, limit, options, control, report));
      report.rows.push_back(std::move(row));
      if (!setup.backward) continue;
      ROPEWALK_TRY(BenchRow gradients, bench_backward(setup, encoding, tokens, limit, options, control, report));
      report.rows.push_back(std::move(gradients));
    }
  }
  return report;
}

Result<BenchReport> bench_decode(const AttentionBench& setup, const BenchOptions& options, const Control& control) {
  BenchReport report;
  ROPEWALK_TRY(const Limit limit, read_limit(options));
  for (const int64_t keys : setup.tokens) {
    ROPEWALK_TRY(BenchRow row, bench_step(setup, keys, limit, options, control, report));
    report.rows.push_back(std::move(row));
  }
  return report;
}

}  // namespace ropewalk
