#include "encodings/rope/table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <new>
#include <stdexcept>
#include <vector>

#include "base/fail.h"
#include "simd/sincos.h"

namespace ropewalk {
namespace {

constexpr double kMaxPosition = 0x1p31;
// Frequencies above one radian a position occur for theta < 1 only; this bound keeps every angle within simd::kMaxAngle.
constexpr double kMaxFrequency = simd::kMaxAngle / kMaxPosition;

Result<int64_t> check_schedule(const RotarySchedule& schedule, size_t positions) {
  const auto& f = schedule.inv_freq;
  if (f.empty() || f.size() > INT32_MAX / 2 || static_cast<size_t>(schedule.rotated.count) != 2 * f.size()) {
    return fail(ErrorCode::kInvalidArgument, "[rope] expected one frequency for two rotated dims, but got {} for {}", f.size(),
                schedule.rotated.count);
  }
  for (size_t i = 0; i < f.size(); ++i) {
    if (std::abs(f[i]) <= kMaxFrequency) continue;  // false for NaN
    return fail(ErrorCode::kInvalidArgument, "[rope] expected inv_freq[{}] to be in [-{}, {}] rad per position, but got {}", i,
                kMaxFrequency, kMaxFrequency, f[i]);
  }
  if (!std::isfinite(schedule.amplitude)) {
    return fail(ErrorCode::kInvalidArgument, "[rope] expected a finite amplitude, but got {}", schedule.amplitude);
  }
  int64_t axes = 1;
  if (!schedule.axis.empty()) {
    if (schedule.axis.size() != f.size()) {
      return fail(ErrorCode::kInvalidArgument, "[rope] expected the axis of each of {} planes, but got {}", f.size(),
                  schedule.axis.size());
    }
    axes = int64_t{1} + *std::max_element(schedule.axis.begin(), schedule.axis.end());
  }
  if (positions % static_cast<size_t>(axes) != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "[rope] expected {} rows of positions of equal length, one an axis, but got {} positions", axes, positions);
  }
  return axes;
}

float round_f32(double x) { return static_cast<float>(x); }

// What each plane's frequency is beyond theta^(-2i/R): 1 for a plain schedule. theta = 0: not known.
std::vector<double> ratios(const RotarySchedule& schedule) {
  std::vector<double> ratio(schedule.inv_freq.size(), 1);
  for (size_t i = 0; i < ratio.size(); ++i) {
    const double r = schedule.inv_freq[i] * std::pow(schedule.theta, 2.0 * static_cast<double>(i) / schedule.rotated.count);
    // Rules change the base by factors per plane, which leaves the rounding of a few double operations.
    if (std::abs(r - 1) > 1e-13) ratio[i] = r;
  }
  return ratio;
}

// transformers: e = 2i/R, p = theta^e, f = 1/p, angle = m f, each a float32.
std::vector<float> hf_frequencies(const RotarySchedule& schedule) {
  const size_t planes = schedule.inv_freq.size();
  std::vector<float> f(planes);
  if (!(schedule.theta > 0)) {
    std::transform(schedule.inv_freq.begin(), schedule.inv_freq.end(), f.begin(), round_f32);
    return f;
  }
  const auto ratio = ratios(schedule);
  for (size_t i = 0; i < planes; ++i) {
    const float e = round_f32(2.0 * static_cast<double>(i) / schedule.rotated.count);
    const float power = round_f32(std::pow(schedule.theta, static_cast<double>(e)));
    f[i] = round_f32(static_cast<double>(round_f32(1.0 / static_cast<double>(power))) * ratio[i]);
  }
  return f;
}

// x rounded to odd, in f32, so that a second rounding to bf16 is a single one (Boldo and Melquiond 2008).
float round_to_odd(double x) {
  const float nearest = round_f32(x);
  const double back = static_cast<double>(nearest);
  if (back == x || !std::isfinite(nearest)) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(back) > std::abs(x)) --bits;  // towards zero; nearest is not zero, for it is larger than |x| > 0
  return std::bit_cast<float>(bits | 1);
}

// Builds row by row: m_[i] * f_[i] is the angle of plane i (the rounded profiles put the whole angle into m_ and 1 into f_).
template <class P>
class TableBuilder {
 public:
  TableBuilder(const RotarySchedule& schedule, std::span<const P> positions, int64_t axes, Profile profile)
      : schedule_(schedule), positions_(positions), planes_(schedule.inv_freq.size()), profile_(profile) {
    rows_ = static_cast<int64_t>(positions.size()) / axes;
    m_.resize(planes_);
    f_ = schedule.inv_freq;
    if (profile == Profile::kHf) {
      narrow_ = hf_frequencies(schedule);
    } else if (profile == Profile::kGgml) {
      theta_scale_ = round_f32(std::pow(schedule.theta, -2.0 / schedule.rotated.count));
      for (const double r : ratios(schedule)) narrow_.push_back(round_f32(r));
    }
    if (!narrow_.empty()) std::fill(f_.begin(), f_.end(), 1.0);
  }

  RotaryTable build() {
    RotaryTable table;
    table.positions = rows_;
    table.planes = static_cast<int>(planes_);
    table.cos.resize(static_cast<size_t>(rows_) * planes_);
    table.sin.resize(table.cos.size());
    std::vector<double> cos64(profile_ == Profile::kVllmBf16 ? planes_ : 0), sin64(cos64.size());
    const auto count = static_cast<int64_t>(planes_);
    // A rounded profile multiplies the rounded cos by the rounded amplitude, the exact one rounds once.
    const bool rounded = !narrow_.empty();
    const auto amplitude32 = round_f32(schedule_.amplitude);
    const double amplitude = rounded ? 1 : schedule_.amplitude;
    for (int64_t t = 0; t < rows_; ++t) {
      fill_row(t);
      float* cos = table.cos.data() + t * count;
      float* sin = table.sin.data() + t * count;
      if (profile_ == Profile::kVllmBf16) {
        simd::sincos_products(m_.data(), f_.data(), count, amplitude, cos64.data(), sin64.data());
        for (size_t i = 0; i < planes_; ++i) {
          cos[i] = to_f32(to_bf16(round_to_odd(cos64[i])));
          sin[i] = to_f32(to_bf16(round_to_odd(sin64[i])));
        }
      } else {
        simd::sincos_products(m_.data(), f_.data(), count, amplitude, cos, sin);
        for (int64_t i = 0; rounded && i < count; ++i) {
          cos[i] *= amplitude32;
          sin[i] *= amplitude32;
        }
      }
    }
    return table;
  }

 private:
  double position(int64_t t, size_t plane) const {
    const int64_t axis = schedule_.axis.empty() ? 0 : schedule_.axis[plane];
    return static_cast<double>(positions_[static_cast<size_t>(axis * rows_ + t)]);
  }

  void fill_row(int64_t t) {
    switch (profile_) {
      case Profile::kExact:
      case Profile::kVllmBf16:
        if (schedule_.axis.empty()) {
          std::fill(m_.begin(), m_.end(), position(t, 0));
        } else {
          for (size_t i = 0; i < planes_; ++i) m_[i] = position(t, i);
        }
        return;
      case Profile::kHf:
        for (size_t i = 0; i < planes_; ++i) m_[i] = static_cast<double>(round_f32(position(t, i)) * narrow_[i]);
        return;
      case Profile::kGgml: fill_running_product(t); return;
    }
  }

  // ggml multiplies the angle by theta_scale plane by plane, on every axis, and each plane reads its axis's product.
  void fill_running_product(int64_t t) {
    std::vector<float>& angle = running_;
    const int64_t axes = static_cast<int64_t>(positions_.size()) / rows_;
    angle.resize(static_cast<size_t>(axes));
    for (size_t a = 0; a < angle.size(); ++a) {
      angle[a] = round_f32(static_cast<double>(positions_[a * static_cast<size_t>(rows_) + static_cast<size_t>(t)]));
    }
    for (size_t i = 0; i < planes_; ++i) {
      m_[i] = static_cast<double>(angle[schedule_.axis.empty() ? 0 : schedule_.axis[i]] * narrow_[i]);
      for (float& x : angle) x *= theta_scale_;
    }
  }

  const RotarySchedule& schedule_;
  std::span<const P> positions_;
  size_t planes_;
  Profile profile_;
  int64_t rows_ = 0;
  std::vector<double> m_, f_;
  std::vector<float> narrow_;  // hf: frequencies; ggml: ratios to theta^(-2i/R)
  std::vector<float> running_;
  float theta_scale_ = 1;
};

template <class P>
Result<RotaryTable> make_table(const RotarySchedule& schedule, std::span<const P> positions, Profile profile) {
  ROPEWALK_TRY(const int64_t axes, check_schedule(schedule, positions.size()));
  for (const P m : positions) {
    if (std::abs(static_cast<double>(m)) <= kMaxPosition) continue;  // false for NaN
    return fail(ErrorCode::kInvalidArgument, "[rope] expected a position in [-2^31, 2^31], but got {}", m);
  }
  if (profile == Profile::kGgml && !(schedule.theta > 0)) {
    return fail(ErrorCode::kInvalidArgument,
                "[rope] profile ggml needs the rotary base of the schedule, but theta is not known");
  }
  try {
    return TableBuilder<P>(schedule, positions, axes, profile).build();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLarge, "[rope] no memory for a table of {} positions and {} planes", positions.size(),
                schedule.inv_freq.size());
  } catch (const std::length_error&) {
    return fail(ErrorCode::kTooLarge, "[rope] a table of {} positions and {} planes is larger than memory", positions.size(),
                schedule.inv_freq.size());
  }
}

}  // namespace

Result<RotaryTable> make_rotary_table(const RotarySchedule& schedule, std::span<const int64_t> positions, Profile profile) {
  return make_table(schedule, positions, profile);
}

Result<RotaryTable> make_rotary_table(const RotarySchedule& schedule, std::span<const double> positions) {
  return make_table(schedule, positions, Profile::kExact);
}

Result<RotaryTable> rows_of_table(const CallerTable& table, std::span<const int64_t> positions) {
  if (table.dtype != DType::kF32) {
    return fail(ErrorCode::kUnsupported, "[rope] expected a table of cos and sin in f32, but got {}", to_string(table.dtype));
  }
  if (table.rows < 0 || table.planes < 1 || table.cos == nullptr || table.sin == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "[rope] expected a table with data, but got {} rows and {} planes", table.rows,
                table.planes);
  }
  for (const int64_t m : positions) {
    if (m >= 0 && m < table.rows) continue;
    return fail(ErrorCode::kInvalidArgument, "[rope] expected a position inside the given table of {} rows, but got {}",
                table.rows, m);
  }
  RotaryTable out;
  out.positions = static_cast<int64_t>(positions.size());
  out.planes = table.planes;
  const auto planes = static_cast<int64_t>(table.planes);
  for (const int64_t m : positions) {
    const float* cos = static_cast<const float*>(table.cos) + m * planes;
    const float* sin = static_cast<const float*>(table.sin) + m * planes;
    out.cos.insert(out.cos.end(), cos, cos + planes);
    out.sin.insert(out.sin.end(), sin, sin + planes);
  }
  return out;
}

std::optional<std::string> check_stored_frequencies(const RotarySchedule& schedule, std::string_view tensor,
                                                    std::span<const float> stored) {
  if (stored.size() != schedule.inv_freq.size()) {
    return fmt::format("{} holds {} frequencies, the config means {}: the buffer is ignored", tensor, stored.size(),
                       schedule.inv_freq.size());
  }
  for (size_t i = 0; i < stored.size(); ++i) {
    const double want = schedule.inv_freq[i], got = static_cast<double>(stored[i]);
    if (std::abs(got - want) <= 0x1p-22 * std::abs(want)) continue;  // false for NaN
    return fmt::format("{}[{}] is {}, but the config means {}: the buffer is ignored", tensor, i, got, want);
  }
  return std::nullopt;
}

}  // namespace ropewalk
