// The output layer: log-likelihoods and logits without ever holding all logits of a window.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/packed_weights.h"

namespace ropewalk {

struct OutputProgress {
  const Control& control;
  double before = 0, total = 0;  // work units done when the output layer starts, and of the whole pass
};

// -log softmax(W norm(x_i))[targets[i]], nats. x [n][C] is overwritten. The vocabulary passes in chunks; each row keeps its
// largest logit and a running sum of exponentials in double. Errors: kCorrupt when a result is not finite.
Result<std::vector<double>> score_outputs(const Model& model, float* x, std::span<const int32_t> targets, WeightSource& weights,
                                          std::vector<Workspace>& work, const ForwardOptions& options,
                                          const OutputProgress& progress);

}  // namespace ropewalk
