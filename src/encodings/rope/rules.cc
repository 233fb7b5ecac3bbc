#include "encodings/rope/rules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/fail.h"

namespace ropewalk {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

bool positive(double x) { return std::isfinite(x) && x > 0; }

Result<void> check_positive(const char* rule, const char* what, double x) {
  if (positive(x)) return {};
  return fail(ErrorCode::kInvalidArgument, "[{}] expected {} to be finite and > 0, but got {}", rule, what, x);
}

Result<void> check_theta(const char* rule, const RotarySchedule& schedule) {
  if (positive(schedule.theta)) return {};
  return fail(ErrorCode::kInvalidArgument, "[{}] needs the rotary base of the schedule, but theta is not known", rule);
}

Result<void> check_length(const char* rule, const char* what, int64_t n) {
  if (n >= 1) return {};
  return fail(ErrorCode::kInvalidArgument, "[{}] expected {} to be at least 1, but got {}", rule, what, n);
}

Result<void> check_ntk_width(const char* rule, const RotarySchedule& schedule) {
  if (schedule.rotated.count > 2) return {};
  return fail(ErrorCode::kInvalidArgument, "[{}] the exponent R/(R-2) needs a rotary width R > 2, but got {}", rule,
              schedule.rotated.count);
}

// f_i *= base^(exponent * 2i): every change of the rotary base is of this form.
void scale_by_power(RotarySchedule& schedule, double base, double exponent) {
  for (size_t i = 1; i < schedule.inv_freq.size(); ++i) {
    schedule.inv_freq[i] *= std::pow(base, exponent * 2.0 * static_cast<double>(i));
  }
}

RotarySchedule ntk(RotarySchedule schedule, double ratio) {
  const double width = schedule.rotated.count;
  scale_by_power(schedule, ratio, -1 / (width - 2));
  if (schedule.theta > 0) schedule.theta *= std::pow(ratio, width / (width - 2));
  return schedule;
}

Result<void> check_list(const char* rule, const char* what, std::span<const double> list, size_t planes) {
  if (list.size() != planes) {
    return fail(ErrorCode::kInvalidArgument, "[{}] expected {} to hold {} numbers, one a plane, but got {}", rule, what, planes,
                list.size());
  }
  for (size_t i = 0; i < list.size(); ++i) {
    if (!positive(list[i])) {
      return fail(ErrorCode::kInvalidArgument, "[{}] expected {}[{}] to be finite and > 0, but got {}", rule, what, i, list[i]);
    }
  }
  return {};
}

}  // namespace

Result<RotarySchedule> scale_theta(RotarySchedule schedule, double new_theta) {
  ROPEWALK_CHECK_OK(check_positive("theta", "the new base", new_theta));
  ROPEWALK_CHECK_OK(check_theta("theta", schedule));
  // theta'^(-2i/R) / theta^(-2i/R), from the two bases apart: their quotient may overflow.
  for (size_t i = 1; i < schedule.inv_freq.size(); ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / schedule.rotated.count;
    schedule.inv_freq[i] *= std::pow(schedule.theta, exponent) / std::pow(new_theta, exponent);
  }
  schedule.theta = new_theta;
  return schedule;
}

Result<RotarySchedule> scale_linear(RotarySchedule schedule, double factor) {
  ROPEWALK_CHECK_OK(check_positive("linear", "the factor", factor));
  for (double& f : schedule.inv_freq) f /= factor;
  return schedule;
}

Result<RotarySchedule> scale_ntk(RotarySchedule schedule, double factor) {
  ROPEWALK_CHECK_OK(check_positive("ntk", "the factor", factor));
  ROPEWALK_CHECK_OK(check_ntk_width("ntk", schedule));
  return ntk(std::move(schedule), factor);
}

Result<RotarySchedule> scale_dynamic_ntk(RotarySchedule schedule, double factor, int64_t trained, int64_t length) {
  ROPEWALK_CHECK_OK(check_positive("dynamic", "the factor", factor));
  ROPEWALK_CHECK_OK(check_length("dynamic", "the trained length", trained));
  ROPEWALK_CHECK_OK(check_ntk_width("dynamic", schedule));
  if (length <= trained) return schedule;
  return ntk(std::move(schedule), factor * static_cast<double>(length) / static_cast<double>(trained) - (factor - 1));
}

int64_t length_by_step(int64_t m, int64_t trained, int64_t step) noexcept {
  if (m < 0) return trained;
  const int64_t blocks = m / step + 1;
  if (blocks > INT64_MAX / step) return INT64_MAX;
  return std::max(trained, blocks * step);
}

Result<RotarySchedule> scale_gradient_base(RotarySchedule schedule, int64_t trained, int64_t length) {
  ROPEWALK_CHECK_OK(check_theta("gradient", schedule));
  for (const int64_t n : {trained, length}) {
    if (static_cast<double>(n) > kTwoPi) continue;
    return fail(ErrorCode::kInvalidArgument, "[gradient] expected both lengths to be greater than 2 pi, but got {}", n);
  }
  const double exponent = std::log(static_cast<double>(length) / kTwoPi) / std::log(static_cast<double>(trained) / kTwoPi);
  const double new_theta = std::pow(schedule.theta, exponent);
  if (!positive(new_theta)) {
    return fail(ErrorCode::kInvalidArgument, "[gradient] the base for length {} leaves the range of numbers: {}^{}", length,
                schedule.theta, exponent);
  }
  return scale_theta(std::move(schedule), new_theta);
}

double yarn_mscale(double factor, double x) noexcept { return factor <= 1 ? 1.0 : 0.1 * x * std::log(factor) + 1.0; }

Result<YarnRamp> yarn_ramp(const RotarySchedule& schedule, const YarnParams& params, int64_t trained) {
  ROPEWALK_CHECK_OK(check_theta("yarn", schedule));
  ROPEWALK_CHECK_OK(check_positive("yarn", "beta_fast", params.beta_fast));
  ROPEWALK_CHECK_OK(check_positive("yarn", "beta_slow", params.beta_slow));
  ROPEWALK_CHECK_OK(check_length("yarn", "the trained length", trained));
  if (schedule.theta <= 1) {
    return fail(ErrorCode::kInvalidArgument, "[yarn] expected a rotary base > 1, but got {}", schedule.theta);
  }
  if (params.beta_fast < params.beta_slow) {
    return fail(ErrorCode::kInvalidArgument, "[yarn] expected beta_fast >= beta_slow, but got {} < {}", params.beta_fast,
                params.beta_slow);
  }
  const double width = schedule.rotated.count;
  const auto plane_of = [&](double turns) {  // arXiv:2309.00071 eq. 13 solved for the plane index
    return width * std::log(static_cast<double>(trained) / (kTwoPi * turns)) / (2 * std::log(schedule.theta));
  };
  YarnRamp ramp;
  ramp.raw_low = plane_of(params.beta_fast);
  ramp.raw_high = plane_of(params.beta_slow);
  ramp.low = params.truncate ? std::floor(ramp.raw_low) : ramp.raw_low;
  ramp.high = params.truncate ? std::ceil(ramp.raw_high) : ramp.raw_high;
  // The clamp is to R - 1, not to the last plane R/2 - 1: with a long L0 the ramp ends past the last plane and must stay there.
  ramp.low = std::max(ramp.low, 0.0);
  ramp.high = std::min(ramp.high, width - 1);
  return ramp;
}

Result<RotarySchedule> scale_yarn(RotarySchedule schedule, const YarnParams& params, int64_t trained) {
  ROPEWALK_CHECK_OK(check_positive("yarn", "the factor", params.factor));
  ROPEWALK_TRY(const YarnRamp ramp, yarn_ramp(schedule, params, trained));
  for (const auto& value : {params.mscale, params.mscale_all_dim}) {
    if (!value || (std::isfinite(*value) && *value >= 0)) continue;
    return fail(ErrorCode::kInvalidArgument, "[yarn] expected mscale and mscale_all_dim to be finite and >= 0, but got {}",
                *value);
  }
  const double s = params.factor;
  const double high = ramp.high == ramp.low ? ramp.high + 0.001 : ramp.high;
  for (size_t i = 0; i < schedule.inv_freq.size(); ++i) {
    const double g = std::clamp((static_cast<double>(i) - ramp.low) / (high - ramp.low), 0.0, 1.0);
    double& f = schedule.inv_freq[i];
    f = f * (1 - g) + f / s * g;
  }
  const bool all_dim = params.mscale_all_dim.value_or(0) != 0;
  if (params.attention_factor) {
    ROPEWALK_CHECK_OK(check_positive("yarn", "attention_factor", *params.attention_factor));
    schedule.amplitude *= *params.attention_factor;
  } else if (params.mscale.value_or(0) != 0 && all_dim) {
    schedule.amplitude *= yarn_mscale(s, *params.mscale) / yarn_mscale(s, *params.mscale_all_dim);
  } else {
    schedule.amplitude *= yarn_mscale(s);
  }
  if (all_dim) {
    const double g = yarn_mscale(s, *params.mscale_all_dim);
    schedule.softmax_multiplier *= g * g;
  }
  return schedule;
}

Result<RotarySchedule> scale_llama3(RotarySchedule schedule, const Llama3Params& params, int64_t trained) {
  ROPEWALK_CHECK_OK(check_positive("llama3", "the factor", params.factor));
  ROPEWALK_CHECK_OK(check_positive("llama3", "low", params.low));
  ROPEWALK_CHECK_OK(check_length("llama3", "the trained length", trained));
  if (!std::isfinite(params.high) || params.high <= params.low) {
    return fail(ErrorCode::kInvalidArgument, "[llama3] expected high > low, but got high {} and low {}", params.high,
                params.low);
  }
  for (double& f : schedule.inv_freq) {
    const double turns = static_cast<double>(trained) * f / kTwoPi;  // L0 / wavelength
    if (turns > params.high) continue;
    if (turns < params.low) {
      f /= params.factor;
    } else {
      const double t = (turns - params.low) / (params.high - params.low);
      f = f * ((1 - t) / params.factor + t);
    }
  }
  return schedule;
}

Result<RotarySchedule> scale_longrope(RotarySchedule schedule, const LongRopeParams& params, int64_t trained, int64_t length) {
  ROPEWALK_CHECK_OK(check_positive("longrope", "the factor", params.factor));
  ROPEWALK_CHECK_OK(check_length("longrope", "the trained length", trained));
  const size_t planes = schedule.inv_freq.size();
  ROPEWALK_CHECK_OK(check_list("longrope", "short_factor", params.short_factor, planes));
  ROPEWALK_CHECK_OK(check_list("longrope", "long_factor", params.long_factor, planes));
  const bool is_long = length > trained;
  const auto& divisors = is_long ? params.long_factor : params.short_factor;
  for (size_t i = 0; i < planes; ++i) schedule.inv_freq[i] /= divisors[i];
  const auto& mscale = is_long ? params.long_mscale : params.short_mscale;
  if (params.attention_factor) {
    ROPEWALK_CHECK_OK(check_positive("longrope", "attention_factor", *params.attention_factor));
    schedule.amplitude *= *params.attention_factor;
  } else if (mscale) {
    ROPEWALK_CHECK_OK(check_positive("longrope", is_long ? "long_mscale" : "short_mscale", *mscale));
    schedule.amplitude *= *mscale;
  } else if (params.factor > 1) {
    if (trained < 2)
      return fail(ErrorCode::kInvalidArgument, "[longrope] expected a trained length of 2 or more, but got {}", trained);
    schedule.amplitude *= std::sqrt(1 + std::log(params.factor) / std::log(static_cast<double>(trained)));
  }
  return schedule;
}

Result<RotarySchedule> scale_factors(RotarySchedule schedule, std::span<const double> divisors) {
  ROPEWALK_CHECK_OK(check_list("factors", "the list", divisors, schedule.inv_freq.size()));
  for (size_t i = 0; i < divisors.size(); ++i) {
    schedule.inv_freq[i] = divisors[i] >= 1e30 ? 0.0 : schedule.inv_freq[i] / divisors[i];
  }
  return schedule;
}

Result<RotarySchedule> make_partial_schedule(double theta, int head_dim, double fraction, Pairing pairing, SliceEnd end) {
  if (!positive(fraction) || fraction > 1) {
    return fail(ErrorCode::kInvalidArgument, "[rope] expected the rotated fraction of the head to be in (0, 1], but got {}",
                fraction);
  }
  ROPEWALK_TRY(auto schedule, make_rotary_schedule(theta, static_cast<int>(head_dim * fraction), head_dim, pairing));
  if (end == SliceEnd::kLast) schedule.rotated.begin = head_dim - schedule.rotated.count;
  return schedule;
}

Result<RotarySchedule> make_proportional_schedule(double theta, int head_dim, double fraction, Pairing pairing) {
  if (!positive(fraction) || fraction > 1) {
    return fail(ErrorCode::kInvalidArgument, "[rope] expected the rotated fraction of the head to be in (0, 1], but got {}",
                fraction);
  }
  ROPEWALK_TRY(auto schedule, make_rotary_schedule(theta, head_dim, head_dim, pairing));
  const auto active = static_cast<size_t>(fraction * head_dim / 2);
  for (size_t i = active; i < schedule.inv_freq.size(); ++i) schedule.inv_freq[i] = 0;
  return schedule;
}

}  // namespace ropewalk
