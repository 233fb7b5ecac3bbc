// The fast forward pass: products by oneDNN, attention by our own kernels, weights expanded a layer at a time.
// The slow, readable one beside it (reference_forward.h) is the oracle.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/control.h"
#include "encodings/rope/settings.h"
#include "engine/model.h"
#include "ropewalk/error.h"

namespace ropewalk {

enum class Precision : uint8_t {
  kExact,  // f32 products and attention
  kFast,   // bf16 where the processor multiplies it natively, else f32
};

// Expanded weights kept between passes over one model: worth its memory where many windows or settings follow each other.
// Layers, then rows of the output matrix, are kept in the order of first use while the budget lasts. Belongs to one caller at a
// time.
class WeightCache {
 public:
  explicit WeightCache(int64_t budget_bytes);
  WeightCache(WeightCache&&) noexcept;
  WeightCache& operator=(WeightCache&&) noexcept;
  ~WeightCache();
  int64_t bytes() const;  // in use

  struct State;  // packed_weights.h
  State& state();

 private:
  std::unique_ptr<State> state_;
};
// The budget that keeps all of a model.
int64_t weight_cache_bytes(const ModelSpec& spec, Precision precision);

struct ForwardOptions {
  Precision precision = Precision::kExact;
  int threads = 1;
  WeightCache* weights = nullptr;  // null: every pass expands the weights anew, a layer at a time
};

// The position scheme to run with: one entry a layer (from apply_setting).
using LayerPositions = std::vector<AppliedLayer>;

// Applies a setting to a model at a length.
Result<AppliedSetting> apply_setting(const Setting& setting, const ModelSpec& spec, int64_t length);

// Negative log-likelihood, in nats, of tokens[i+1] given tokens[0..i]: out[i], i = 0 .. n-2. One causal pass over the window,
// layer by layer; logits are never held for all positions at once. Memory: score_memory(). Deterministic for one thread count,
// equal to rounding for others. `score`: empty = every position; else a sorted list of predicting positions, and out has one
// entry for each. Errors: kInvalidArgument (token id outside the vocabulary, fewer than 2 tokens), kTooLarge, kInterrupted.
Result<std::vector<double>> score_window(const Model& model, const LayerPositions& positions, std::span<const int32_t> tokens,
                                         std::span<const int64_t> score, const ForwardOptions& options, const Control& control);

// Expected peak bytes of score_window, and floating-point operations (for the plan's estimate).
int64_t score_memory(const ModelSpec& spec, int64_t length, const ForwardOptions& options);
double score_flops(const ModelSpec& spec, int64_t length);

// A sequence under generation: a cache for each layer. Keys are kept rotated where the schedule is fixed, un-rotated where
// pairs choose it. `model` must outlive the session.
class Session {
 public:
  // Memory for `capacity` tokens is taken at once; kTooLarge when it is not there.
  static Result<Session> make(const Model& model, const LayerPositions& positions, int64_t capacity,
                              const ForwardOptions& options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Appends tokens (a chunk of a prompt, or one) and returns the logits [V] of the last one. Up to 8 tokens are multiplied
  // straight from the file's blocks; more go through expanded layers, in chunks. On an error the session is as it was before
  // the call. Errors: kInvalidArgument (no token, or one outside the vocabulary), kTooLarge (past the capacity), kCorrupt (a
  // weight that is not finite), kInterrupted.
  Result<std::vector<float>> append(std::span<const int32_t> tokens, const Control& control);
  int64_t length() const;
  int64_t capacity() const;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ropewalk
