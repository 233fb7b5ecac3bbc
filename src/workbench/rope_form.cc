#include "workbench/rope_form.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>

#include "base/fail.h"

namespace ropewalk {
namespace {

constexpr double kSame = 1e-9;

double number(const std::string& text, double fallback) {
  if (text.empty()) return fallback;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && std::isfinite(value) ? value : fallback;
}

double option(const Rule& rule, const char* key, double fallback) {
  const auto it = rule.options.find(key);
  return it == rule.options.end() ? fallback : number(it->second, fallback);
}

// e_i of theta^(-e_i); a negative mark for planes that stand still.
std::vector<double> exponents(const RotarySchedule& plain) {
  std::vector<double> out;
  for (const double f : plain.inv_freq) out.push_back(f > 0 ? -std::log(f) / std::log(plain.theta) : -1);
  return out;
}

double yarn_bound(double turns, double rotary, double original, double theta) {
  return rotary * std::log(original / (2 * std::numbers::pi * turns)) / (2 * std::log(theta));
}

}  // namespace

const char* to_string(RopeForm::Kind kind) noexcept {
  switch (kind) {
    case RopeForm::Kind::kBase: return "base";
    case RopeForm::Kind::kLinear: return "linear";
    case RopeForm::Kind::kYarn: return "yarn";
    case RopeForm::Kind::kLlama3: return "llama3";
    case RopeForm::Kind::kFactors: break;
  }
  return "factors";
}

std::vector<double> frequencies(const RopeForm& form, const RotarySchedule& plain) {
  std::vector<double> out = exponents(plain);
  const double rotary = 2.0 * static_cast<double>(out.size()), original = static_cast<double>(form.original);
  double low = yarn_bound(form.beta_fast, rotary, original, form.theta),
         high = yarn_bound(form.beta_slow, rotary, original, form.theta);
  if (form.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, rotary - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] < 0) {
      out[i] = 0;
      continue;
    }
    const double f = std::pow(form.theta, -out[i]);
    switch (form.kind) {
      case RopeForm::Kind::kBase: out[i] = f; break;
      case RopeForm::Kind::kLinear: out[i] = f / form.factor; break;
      case RopeForm::Kind::kYarn: {
        const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
        out[i] = f * (1 - ramp) + f / form.factor * ramp;
        break;
      }
      case RopeForm::Kind::kLlama3: {
        const double turns = original * f / (2 * std::numbers::pi);  // L0 / wavelength
        const double mix = std::clamp((turns - form.low) / (form.high - form.low), 0.0, 1.0);
        out[i] = f * ((1 - mix) / form.factor + mix);
        break;
      }
      case RopeForm::Kind::kFactors: out[i] = f / form.factors[i]; break;
    }
  }
  return out;
}

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return 1;
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    worst = std::max(worst, b[i] == 0 || a[i] == 0 ? 1.0 : std::abs(a[i] - b[i]) / std::abs(b[i]));
  }
  return worst;
}

Result<RopeForm> describe(const RotarySchedule& target, const RotarySchedule& plain, const Setting& setting,
                          int64_t trained_length) {
  if (!(plain.theta > 1) || plain.inv_freq.size() != target.inv_freq.size()) {
    return fail(ErrorCode::kUnsupported, "[export] expected a model whose rotary base is known, but got base {}", plain.theta);
  }
  RopeForm form;
  form.theta = plain.theta;
  form.amplitude = target.amplitude;
  form.original = trained_length;
  const auto matches = [&](const RopeForm& candidate) {
    return relative_error(frequencies(candidate, plain), target.inv_freq) <= kSame;
  };
  // A base and a factor: the first plane (exponent 0) is 1/s, the fastest decay gives the base.
  const std::vector<double> powers = exponents(plain);
  size_t last = 0;
  for (size_t i = 0; i < powers.size(); ++i) {
    if (powers[i] > powers[last] && target.inv_freq[i] > 0) last = i;
  }
  if (powers[0] == 0 && target.inv_freq[0] > 0 && powers[last] > 0) {
    RopeForm linear = form;
    linear.factor = 1 / target.inv_freq[0];
    linear.theta = std::pow(target.inv_freq[last] * linear.factor, -1 / powers[last]);
    if (std::abs(linear.theta - plain.theta) < 1e-9 * plain.theta) linear.theta = plain.theta;
    if (std::abs(linear.factor - 1) < kSame) linear.factor = 1;
    linear.kind = linear.factor == 1 ? RopeForm::Kind::kBase : RopeForm::Kind::kLinear;
    if (matches(linear)) return linear;
  }
  for (const Rule& rule : setting.rules) {
    RopeForm named = form;
    named.factor = number(rule.value, 1);
    named.original = static_cast<int64_t>(option(rule, "original", static_cast<double>(trained_length)));
    if (rule.name == "yarn") {
      named.kind = RopeForm::Kind::kYarn;
      named.beta_fast = option(rule, "beta_fast", 32);
      named.beta_slow = option(rule, "beta_slow", 1);
      named.truncate = option(rule, "truncate", 1) != 0;
    } else if (rule.name == "llama3") {
      named.kind = RopeForm::Kind::kLlama3;
      named.low = option(rule, "low", 1);
      named.high = option(rule, "high", 4);
    } else {
      continue;
    }
    if (matches(named)) return named;
  }
  form.kind = RopeForm::Kind::kFactors;
  for (size_t i = 0; i < powers.size(); ++i) {
    form.factors.push_back(target.inv_freq[i] > 0 ? plain.inv_freq[i] / target.inv_freq[i] : 1);
  }
  return form;
}

}  // namespace ropewalk
