// A schedule described in the words that other programs have for it: a base, a factor, YaRN's numbers, Llama 3's, or a list of
// factors.
//
// The description is found by effect: whatever rules a setting has, the frequencies that come out are compared with what each
// form would give.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encodings/rope/settings.h"
#include "ropewalk/error.h"
#include "ropewalk/rotary.h"

namespace ropewalk {

struct RopeForm {
  enum class Kind : uint8_t { kBase, kLinear, kYarn, kLlama3, kFactors };
  Kind kind = Kind::kBase;
  double theta = 0;      // the base
  double factor = 1;     // s
  int64_t original = 0;  // L0 (yarn, llama3)
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;
  double low = 1, high = 4;     // llama3
  std::vector<double> factors;  // [R/2] divisors of theta^(-2i/R) (kFactors)
  double amplitude = 1;         // of cos and sin
};
const char* to_string(RopeForm::Kind kind) noexcept;  // "base", "linear", "yarn", "llama3", "factors"

// inv_freq [R/2] of a form on the planes of `plain` (its exponents, so planes that stand still keep standing).
std::vector<double> frequencies(const RopeForm& form, const RotarySchedule& plain);
// max over planes of |a - b| / |b|; a plane that stands still in one only counts as 1.
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

// The simplest form within 1e-9 of `target`. `setting` lends the numbers of its yarn or llama3 rule. `trained_length` = L0.
// Errors: kUnsupported when the base behind the model's frequencies is not known.
Result<RopeForm> describe(const RotarySchedule& target, const RotarySchedule& plain, const Setting& setting,
                          int64_t trained_length);

}  // namespace ropewalk
