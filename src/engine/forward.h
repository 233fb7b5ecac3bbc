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

struct ForwardOptions {
  Precision precision = Precision::kExact;
  int threads = 1;
};

// The position scheme to run with: one entry a layer (from apply_setting).
using LayerPositions = std::vector<AppliedLayer>;

// Applies a setting to a model at a length.
Result<AppliedSetting> apply_setting(const Setting& setting, const ModelSpec& spec, int64_t length);

// Negative log-likelihood, in nats, of tokens[i+1] given tokens[0..i]: out[i], i = 0 .. n-2. One causal pass over the window, layer
// by layer; logits are never held for all positions at once. Memory: score_memory(). Deterministic; independent of chunking.
// `score`: empty = every position; else a sorted list of predicting positions, and out has one entry for each.
// Errors: kInvalidArgument (token id outside the vocabulary, fewer than 2 tokens), kTooLarge, kInterrupted.
Result<std::vector<double>> score_window(const Model& model, const LayerPositions& positions, std::span<const int32_t> tokens,
                                         std::span<const int64_t> score, const ForwardOptions& options, const Control& control);

// Expected peak bytes of score_window, and floating-point operations (for the plan's estimate).
int64_t score_memory(const ModelSpec& spec, int64_t length, const ForwardOptions& options);
double score_flops(const ModelSpec& spec, int64_t length);

// A sequence under generation: a cache for each layer.
class Session {
 public:
  // Memory for `capacity` tokens is taken at once; kTooLarge when it is not there.
  static Result<Session> make(const Model& model, const LayerPositions& positions, int64_t capacity, const ForwardOptions& options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Appends tokens (a chunk of a prompt, or one) and returns the logits [V] of the last one.
  Result<std::vector<float>> append(std::span<const int32_t> tokens, const Control& control);
  int64_t length() const;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ropewalk
