// The rules that stretch RoPE: functions from a schedule to a schedule (encodings of longer contexts, one formula each).
//
// A rule multiplies each plane's frequency by a factor, so it acts on whatever the schedule holds: the bare theta^(-2i/R) or
// frequencies that a file has scaled already. Symbols as in ropewalk/rotary.h: R = rotated.count, L0 = the length the incoming
// frequencies were trained for, L = the length in use. Amplitudes and softmax multipliers multiply what is there.
// Errors of all: kInvalidArgument, when a parameter is outside its documented range, or when a rule needs theta and the
// schedule does not know it. All cost O(R).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ropewalk/error.h"
#include "ropewalk/rotary.h"

namespace ropewalk {

// theta^(-2i/R) -> new_theta^(-2i/R). Needs theta.
Result<RotarySchedule> scale_theta(RotarySchedule schedule, double new_theta);

// Position Interpolation (Chen et al. 2023, arXiv:2306.15595): f / s. s > 0.
Result<RotarySchedule> scale_linear(RotarySchedule schedule, double factor);

// NTK-aware: theta' = theta * s^(R/(R-2)), that is f_i * s^(-2i/(R-2)): plane 0 stays, the last plane is slowed by s. R > 2.
// A constant `alpha` in a config (ntk_alpha) is this rule with s = alpha, at every length.
Result<RotarySchedule> scale_ntk(RotarySchedule schedule, double factor);

// Dynamic NTK: theta' = theta * (s L/L0 - (s - 1))^(R/(R-2)) with L = max(L, L0). s = 1 is not "off". R > 2.
Result<RotarySchedule> scale_dynamic_ntk(RotarySchedule schedule, double factor, int64_t trained, int64_t length);
// The L of dynamic rules by steps: the row of query m uses max(L0, step * ceil((m + 1) / step)); negative m use L0.
int64_t length_by_step(int64_t m, int64_t trained, int64_t step) noexcept;

// Gradient base: theta' = theta^(ln(L / 2 pi) / ln(L0 / 2 pi)). Needs theta; L0 and L > 2 pi.
Result<RotarySchedule> scale_gradient_base(RotarySchedule schedule, int64_t trained, int64_t length);

// YaRN (Peng et al. 2023, arXiv:2309.00071).
struct YarnParams {
  double factor = 1;                       // s > 0
  double beta_fast = 32;                   // turns within L0 above which a plane is kept ...
  double beta_slow = 1;                    // ... and below which it is divided by s
  bool truncate = true;                    // bounds of the ramp to whole planes
  std::optional<double> attention_factor;  // the amplitude itself: replaces the default, whatever its value
  std::optional<double> mscale;            // both set and not 0: amplitude = g(s, mscale) / g(s, mscale_all_dim)
  std::optional<double> mscale_all_dim;    // set and not 0: softmax_multiplier *= g(s, mscale_all_dim)^2 (DeepSeek)
};
// The ramp over the plane index: planes <= low keep f, planes >= high get f / s. `raw` are the bounds before rounding and
// clamping.
struct YarnRamp {
  double raw_low = 0, raw_high = 0;
  double low = 0, high = 0;
};
Result<YarnRamp> yarn_ramp(const RotarySchedule& schedule, const YarnParams& params, int64_t trained);
// g(s, x) = 0.1 x ln s + 1, and 1 for s <= 1.
double yarn_mscale(double factor, double x = 1) noexcept;
// Needs theta > 1 (the ramp's bounds are plane indices under it).
Result<RotarySchedule> scale_yarn(RotarySchedule schedule, const YarnParams& params, int64_t trained);

// Llama 3.1: three groups of planes by wavelength against L0. 0 < low < high.
struct Llama3Params {
  double factor = 8;
  double low = 1;
  double high = 4;
};
Result<RotarySchedule> scale_llama3(RotarySchedule schedule, const Llama3Params& params, int64_t trained);

// LongRoPE (Ding et al. 2024, arXiv:2402.13753): f_i / e_i, e = the short list when L <= L0, else the long one.
struct LongRopeParams {
  std::vector<double> short_factor, long_factor;    // [R/2] each, > 0
  double factor = 1;                                // the config's ratio of lengths: amplitude sqrt(1 + ln s / ln L0) for s > 1
  std::optional<double> attention_factor;           // replaces that amplitude ...
  std::optional<double> short_mscale, long_mscale;  // ... and so do these two, by the same switch as the lists
};
Result<RotarySchedule> scale_longrope(RotarySchedule schedule, const LongRopeParams& params, int64_t trained, int64_t length);

// A free factor per plane, the numbers of GGUF's rope_freqs.weight: f_i / e_i, e_i > 0 (1e30 and more: the plane stands still).
Result<RotarySchedule> scale_factors(RotarySchedule schedule, std::span<const double> divisors);

// Partial rotary: R = int(D * fraction), exponent over R, planes in the first (or last) R dims.
enum class SliceEnd : uint8_t { kFirst, kLast };
Result<RotarySchedule> make_partial_schedule(double theta, int head_dim, double fraction, Pairing pairing,
                                             SliceEnd end = SliceEnd::kFirst);
// Proportional (p-RoPE): D/2 planes over the whole head, exponent over D; the first int(fraction * D / 2) turn, the rest have
// frequency 0.
Result<RotarySchedule> make_proportional_schedule(double theta, int head_dim, double fraction, Pairing pairing);

}  // namespace ropewalk
