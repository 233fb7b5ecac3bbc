// A whole model: reading a prompt, and writing one token after another.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/fail.h"
#include "base/machine.h"
#include "base/random.h"
#include "engine/forward.h"
#include "engine/product.h"
#include "engine/reference_forward.h"
#include "workbench/bench/cases.h"

namespace ropewalk {
namespace {

// Decode steps that a session has room for; more runs than that are not needed.
constexpr int kMaxSteps = 64;

std::vector<const StoredTensor*> layer_matrices(const LayerSpec& layer) {
  return {layer.wq, layer.wk, layer.wv, layer.wo, layer.w_gate, layer.w_up, layer.w_down};
}

double layer_elements(const ModelSpec& spec) {
  double sum = 0;
  for (const LayerSpec& layer : spec.layers) {
    for (const StoredTensor* t : layer_matrices(layer)) sum += t == nullptr ? 0 : static_cast<double>(t->elements());
  }
  return sum;
}

// Reading `length` tokens for one prediction: the layers' products for every token, the output layer for one, attention over
// what each layer's window lets it see.
double prefill_giga_flop(const ModelSpec& spec, int64_t length) {
  const auto n = static_cast<double>(length);
  double pairs = 0;
  for (const LayerSpec& layer : spec.layers) {
    const double w = layer.position.reach.window > 0 ? std::min(n, static_cast<double>(layer.position.reach.window)) : n;
    pairs += w * (w + 1) / 2 + (n - w) * w;
  }
  const double output = static_cast<double>(spec.vocabulary) * static_cast<double>(spec.width);
  return (2 * n * layer_elements(spec) + 2 * output + 4.0 * spec.head_dim * spec.heads * pairs) / 1e9;
}

// One step reads every weight as stored once, and the cache (f32) of the tokens that each layer sees.
double step_giga_bytes(const ModelSpec& spec, int64_t length) {
  double bytes = spec.output != nullptr ? static_cast<double>(spec.output->data.size()) : 0;
  for (const LayerSpec& layer : spec.layers) {
    for (const StoredTensor* t : layer_matrices(layer)) bytes += t == nullptr ? 0 : static_cast<double>(t->data.size());
    const int64_t seen = layer.position.reach.window > 0 ? std::min(layer.position.reach.window, length) : length;
    bytes += 2.0 * sizeof(float) * static_cast<double>(seen) * spec.kv_heads * spec.head_dim;
  }
  return bytes / 1e9;
}

struct Run {
  const Model& model;
  LayerPositions positions;
  std::vector<int32_t> tokens;
  ForwardOptions forward;
};

// A short text against the reference in double precision: the largest difference of a token's nll. Its length is bounded by the
// reference's cost, about a gigaflop of plain loops.
Result<double> worst_nll_difference(const Run& run, const Control& control) {
  const ModelSpec& spec = run.model.spec();
  const double weights = layer_elements(spec) + static_cast<double>(spec.vocabulary) * static_cast<double>(spec.width);
  const auto count = static_cast<size_t>(std::clamp(1e9 / weights, 3.0, 12.0));
  const auto tokens = std::span(run.tokens).first(std::min(count, run.tokens.size()));
  ROPEWALK_TRY(const std::vector<double> fast, score_window(run.model, run.positions, tokens, {}, run.forward, control));
  ROPEWALK_TRY(const std::vector<double> logits, reference_forward(spec, run.positions, tokens));
  const auto vocabulary = static_cast<size_t>(spec.vocabulary);
  double worst = 0;
  for (size_t i = 0; i < fast.size(); ++i) {
    const auto row = std::span(logits).subspan(i * vocabulary, vocabulary);
    const double top = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const double x : row) sum += std::exp(x - top);
    const double nll = top + std::log(sum) - row[static_cast<size_t>(tokens[i + 1])];
    const double difference = std::abs(nll - fast[i]);
    worst = difference <= worst ? worst : std::isnan(difference) ? 1e9 : difference;
  }
  return worst;
}

// Nats a token. f32: logits of size 10 to 30 from some hundred layers' worth of sums, each good to 2^-24 times the root of its
// terms: 1e-4 at most. bf16: inputs good to 2^-9 rms, the residual stream adds the layers' errors independently, so logits are
// good to about sqrt(2) 2^-9 of their size, 0.1; twice that for the worst of some tokens.
double nll_bound(bool bf16) { return bf16 ? 0.2 : 1e-3; }

nlohmann::json describe(const ModelBench& setup, const char* key, int64_t value, bool bf16, bool kept, int threads) {
  return {{key, value},
          {"precision", setup.fast ? "fast" : "exact"},
          {"compute", bf16 ? "bf16" : "f32"},
          {"weights_kept", kept},
          {"threads", threads}};
}

}  // namespace

Result<BenchReport> bench_model(const Model& model, const ModelBench& setup, const BenchOptions& options,
                                const Control& control) {
  const ModelSpec& spec = model.spec();
  const int64_t longest = *std::max_element(setup.lengths.begin(), setup.lengths.end());
  const bool bf16 = setup.fast && bf16_products();
  ROPEWALK_TRY(const Setting none, parse_setting("none"));
  ROPEWALK_TRY(const AppliedSetting applied, apply_setting(none, spec, longest));

  Run run{model, applied.layers, {}, {setup.fast ? Precision::kFast : Precision::kExact, options.threads, nullptr}};
  Random random(options.seed, 1);
  for (int64_t i = 0; i < std::max<int64_t>(longest, 2); ++i) {
    run.tokens.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(spec.vocabulary))));
  }
  // As eval does: expanded weights are kept between windows where they fit easily.
  const int64_t budget = weight_cache_bytes(spec, run.forward.precision);
  const bool kept = budget < memory_available() / 2;
  WeightCache cache(kept ? budget : 0);
  run.forward.weights = &cache;

  BenchReport report;
  ROPEWALK_TRY(const double error, worst_nll_difference(run, control));
  const bool right = error <= nll_bound(bf16);

  const Limit peak = bf16 ? bf16_limit(options) : f32_limit(options);
  for (const int64_t length : setup.lengths) {
    if (length < 2)
      return fail(ErrorCode::kInvalidArgument, "[bench] expected lengths of at least 2 tokens, but got {}", length);
    BenchRow row;
    row.name = "prefill";
    row.setup = describe(setup, "tokens", length, bf16, kept, options.threads);
    row.error = error;
    row.checked = right;
    const auto tokens = std::span(run.tokens).first(static_cast<size_t>(length));
    const std::vector<int64_t> last = {length - 2};
    const auto work = [&]() -> Result<void> {
      ROPEWALK_TRY(const std::vector<double> nll, score_window(model, run.positions, tokens, last, run.forward, control));
      if (!std::isfinite(nll.front())) return fail(ErrorCode::kCorrupt, "[bench] {}: the loss is not finite", model.path());
      return {};
    };
    ROPEWALK_CHECK_OK(measure(options, peak, prefill_giga_flop(spec, length), work, control, row, report));
    row.tokens_per_second = static_cast<double>(length) / row.median_ms * 1e3;
    report.rows.push_back(std::move(row));
  }
  if (!setup.decode) return report;

  ROPEWALK_TRY(const Limit read, read_limit(options));
  BenchOptions steps = options;
  steps.max_runs = std::min(options.max_runs, kMaxSteps);
  for (const int64_t length : setup.lengths) {
    BenchRow row;
    row.name = "decode";
    row.setup = describe(setup, "cached_tokens", length, bf16, false, options.threads);
    row.error = error;
    row.checked = right;
    ForwardOptions forward = run.forward;
    ROPEWALK_TRY(Session session, Session::make(model, run.positions, length + kMaxSteps + 2, forward));
    ROPEWALK_TRY(std::vector<float> logits, session.append(std::span(run.tokens).first(static_cast<size_t>(length)), control));
    const auto work = [&]() -> Result<void> {
      ROPEWALK_TRY(logits, session.append(std::span(run.tokens).first(1), control));
      return {};
    };
    ROPEWALK_CHECK_OK(measure(steps, read, step_giga_bytes(spec, length), work, control, row, report));
    row.tokens_per_second = 1e3 / row.median_ms;
    report.rows.push_back(std::move(row));
  }
  return report;
}

}  // namespace ropewalk
