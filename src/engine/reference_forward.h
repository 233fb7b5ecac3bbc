// The forward pass as a document: double precision, naive, one loop after the other, every shape in a comment.
// It is the oracle of the fast one and shares nothing with it but the reading of stored weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/forward.h"

namespace ropewalk {

// Logits [T][V] at every position. Cost: O(T * weights + T^2 H D) plain double operations: for small models only.
// Errors: kInvalidArgument (a token outside the vocabulary, a position scheme with another number of layers).
Result<std::vector<double>> reference_forward(const ModelSpec& spec, const LayerPositions& positions,
                                              std::span<const int32_t> tokens);

}  // namespace ropewalk
