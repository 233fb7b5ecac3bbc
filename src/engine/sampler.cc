#include "engine/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"

namespace ropewalk {

int32_t greedy_token(std::span<const float> logits) noexcept {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Result<int32_t> sample_token(std::span<const float> logits, double temperature, Random& random) {
  if (logits.empty() || !(temperature >= 0) || !std::isfinite(temperature)) {
    return fail(ErrorCode::kInvalidArgument,
                "[sampler] expected logits and a temperature of at least 0, but got {} logits and {}", logits.size(),
                temperature);
  }
  const int32_t best = greedy_token(logits);
  if (temperature == 0) return best;
  const auto top = static_cast<double>(logits[static_cast<size_t>(best)]);
  const auto weight = [&](float z) { return std::exp((static_cast<double>(z) - top) / temperature); };
  double sum = 0;
  for (const float z : logits) sum += weight(z);
  double left = random.uniform() * sum;
  for (size_t i = 0; i < logits.size(); ++i) {
    left -= weight(logits[i]);
    if (left < 0) return static_cast<int32_t>(i);
  }
  return best;  // rounding of the last subtraction
}

}  // namespace ropewalk
