// make_rotary_schedule, query_multiplier: the parts of ropewalk/rotary.h that are formulas only.
#include <cmath>

#include "base/fail.h"
#include "ropewalk/rotary.h"

namespace ropewalk {

Result<RotarySchedule> make_rotary_schedule(double theta, int rotary_dim, int head_dim, Pairing pairing) {
  if (head_dim <= 0 || rotary_dim <= 0 || rotary_dim % 2 != 0 || rotary_dim > head_dim) {
    return fail(ErrorCode::kInvalidArgument, "[rope] expected an even rotary width in [2, head size {}], but got {}", head_dim,
                rotary_dim);
  }
  if (!std::isfinite(theta) || theta <= 0) {
    return fail(ErrorCode::kInvalidArgument, "[rope] expected theta to be finite and > 0, but got {}", theta);
  }
  RotarySchedule schedule;
  schedule.inv_freq.resize(static_cast<size_t>(rotary_dim) / 2);
  for (size_t i = 0; i < schedule.inv_freq.size(); ++i) {
    schedule.inv_freq[i] = 1 / std::pow(theta, 2.0 * static_cast<double>(i) / rotary_dim);
  }
  schedule.pairing = pairing;
  schedule.rotated = {0, rotary_dim};
  schedule.theta = theta;
  return schedule;
}

double query_multiplier(const QueryTemperature& temperature, int64_t m) noexcept {
  // A length that a file left at 0 would divide by zero; no temperature is the only reading that has a meaning.
  if (temperature.length < 1 || m < 0) return 1;
  switch (temperature.form) {
    case QueryTemperature::Form::kNone: return 1;
    case QueryTemperature::Form::kLlama4: {
      const int64_t next = m == INT64_MAX ? m : m + 1;
      const int64_t whole = next / temperature.length;
      return 1 + temperature.beta * std::log1p(static_cast<double>(whole));
    }
    case QueryTemperature::Form::kMinistral: {
      const int64_t whole = m / temperature.length;
      return 1 + temperature.beta * std::log1p(static_cast<double>(whole));
    }
    case QueryTemperature::Form::kLogN: {
      if (temperature.length < 2 || m < temperature.length) return 1;
      return std::log(static_cast<double>(m) + 1) / std::log(static_cast<double>(temperature.length));
    }
  }
  return 1;
}

}  // namespace ropewalk
