// The next token from logits.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "ropewalk/error.h"

namespace ropewalk {

// The index of the largest logit, the first of equals. Precondition: not empty.
int32_t greedy_token(std::span<const float> logits) noexcept;

// One draw from softmax(logits / temperature); temperature 0 is greedy_token and takes no draw. Sums in double, in index order:
// the same seed gives the same token on every machine that computes the same logits. Errors: kInvalidArgument for no logits, or
// a temperature that is negative or not finite.
Result<int32_t> sample_token(std::span<const float> logits, double temperature, Random& random);

}  // namespace ropewalk
