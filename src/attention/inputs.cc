#include "attention/inputs.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "simd/attention_kernels.h"

namespace ropewalk {
namespace {

constexpr int64_t kPositionLimit = int64_t{1} << 61;  // the difference of two positions, and a window on top, cannot overflow

template <class... Args>
Error invalid(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

Result<void> check_view(std::string_view who, std::string_view name, const ConstHeadsView& view) {
  if (view.tokens < 0 || view.heads < 1) {
    return invalid("[{}] {}: expected at least 0 tokens and 1 head, but got {} and {}", who, name, view.tokens, view.heads);
  }
  if (view.dim < 1 || view.dim > kMaxHeadDim) {
    return invalid("[{}] {}: expected a head size of 1 to {}, but got {}", who, name, kMaxHeadDim, view.dim);
  }
  if (view.data == nullptr && view.tokens > 0) return invalid("[{}] {}: expected data, but got a null pointer", who, name);
  if (view.dtype != DType::kF32 && view.dtype != DType::kF16 && view.dtype != DType::kBF16) {
    return invalid("[{}] {}: expected f32, f16 or bf16, but got dtype {}", who, name, static_cast<int>(view.dtype));
  }
  return {};
}

Result<void> check_positions(std::string_view who, std::string_view name, std::span<const int64_t> positions, int64_t tokens) {
  if (static_cast<int64_t>(positions.size()) != tokens) {
    return invalid("[{}] {}: expected {} positions, one a token, but got {}", who, name, tokens, positions.size());
  }
  const auto far =
      std::find_if(positions.begin(), positions.end(), [](int64_t p) { return p > kPositionLimit || p < -kPositionLimit; });
  if (far != positions.end()) return invalid("[{}] {}: expected positions within +-2^61, but got {}", who, name, *far);
  return {};
}

Result<void> check_options(std::string_view who, const AttentionOptions& options) {
  if (!std::isfinite(options.scale) || options.scale < 0) {
    return invalid("[{}] scale: expected a positive number, or 0 for 1/sqrt(D), but got {}", who, options.scale);
  }
  if (!std::isfinite(options.softcap) || options.softcap < 0) {
    return invalid("[{}] softcap: expected a positive number, or 0 for none, but got {}", who, options.softcap);
  }
  const std::pair<const char*, int64_t> reach[] = {
      {"window", options.reach.window}, {"sinks", options.reach.sinks}, {"chunk", options.reach.chunk}};
  for (const auto& [what, value] : reach) {
    if (value < 0 || value > kPositionLimit)
      return invalid("[{}] {}: expected 1 to 2^61 keys, or 0 for none, but got {}", who, what, value);
  }
  if (options.threads < 1) return invalid("[{}] threads: expected at least 1, but got {}", who, options.threads);
  if (options.compute != DType::kF32 && options.compute != DType::kBF16) {
    return invalid("[{}] compute: expected f32 or bf16, but got {}", who, to_string(options.compute));
  }
  return {};
}

// Rows of positions for the axes of a schedule: all or none.
Result<void> check_axes(std::string_view who, const AttentionInputs& in) {
  if (in.q_axes.empty() && in.k_axes.empty()) return {};
  if (in.rotary == nullptr || in.rotary->axis.empty()) {
    return invalid("[{}] axes: expected a rotary schedule with axes beside positions for them, but got none", who);
  }
  const auto axes = size_t{1} + *std::max_element(in.rotary->axis.begin(), in.rotary->axis.end());
  if (in.q_axes.size() != axes * in.q_pos.size() || in.k_axes.size() != axes * in.k_pos.size()) {
    return invalid("[{}] axes: expected {} rows of {} and {} positions, but got {} and {} in all", who, axes, in.q_pos.size(),
                   in.k_pos.size(), in.q_axes.size(), in.k_axes.size());
  }
  return {};
}

// A term with tables of its own must have been made for as many heads, and for heads of this size.
Result<void> check_term(std::string_view who, const char* what, const TermShape& term, int heads, int dim) {
  if (term.heads != 0 && term.heads != heads)
    return invalid("[{}] {} term: expected one made for {} heads, but got one for {}", who, what, heads, term.heads);
  if (term.dim != 0 && term.dim != dim)
    return invalid("[{}] {} term: expected one made for heads of {}, but got one for {}", who, what, dim, term.dim);
  return {};
}

}  // namespace

Result<void> check_schedule(std::string_view who, const RotarySchedule& schedule, int dim) {
  const Slice slice = schedule.rotated;
  if (slice.begin < 0 || slice.count < 0 || slice.begin > dim || slice.count > dim - slice.begin) {
    return invalid("[{}] rotary: expected a slice within {} dims, but got {} dims from dim {}", who, dim, slice.count,
                   slice.begin);
  }
  if (static_cast<size_t>(slice.count) != 2 * schedule.inv_freq.size()) {
    return invalid("[{}] rotary: expected 2 dims a frequency, but got {} dims and {} frequencies", who, slice.count,
                   schedule.inv_freq.size());
  }
  if (!schedule.decay.empty() && schedule.decay.size() != schedule.inv_freq.size()) {
    return invalid("[{}] rotary: expected a decay for each of {} planes, but got {}", who, schedule.inv_freq.size(),
                   schedule.decay.size());
  }
  for (const double x : schedule.decay) {
    if (!(std::abs(x) <= 1)) return invalid("[{}] rotary: expected decays of -1 to 1 a position, but got {}", who, x);
  }
  if (!std::isfinite(schedule.softmax_multiplier)) {
    return invalid("[{}] rotary: expected a finite softmax multiplier, but got {}", who, schedule.softmax_multiplier);
  }
  return {};
}

Result<AttentionShape> check_attention(std::string_view who, const AttentionInputs& inputs, const AttentionOptions& options,
                                       const HeadsView& out) {
  const ConstHeadsView& q = inputs.q;
  const ConstHeadsView& k = inputs.k;
  const ConstHeadsView& v = inputs.v;
  ROPEWALK_CHECK_OK(check_view(who, "q", q));
  ROPEWALK_CHECK_OK(check_view(who, "k", k));
  ROPEWALK_CHECK_OK(check_view(who, "v", v));
  ROPEWALK_CHECK_OK(check_view(who, "out", out));
  ROPEWALK_CHECK_OK(check_options(who, options));
  if (q.heads % k.heads != 0) {
    return invalid("[{}] q: expected a multiple of the {} key heads, but got {} heads", who, k.heads, q.heads);
  }
  if (k.dim != q.dim) return invalid("[{}] k: expected the head size of q, {}, but got {}", who, q.dim, k.dim);
  if (v.heads != k.heads || v.tokens != k.tokens) {
    return invalid("[{}] v: expected {} tokens and {} heads as in k, but got {} and {}", who, k.tokens, k.heads, v.tokens,
                   v.heads);
  }
  if (out.tokens != q.tokens || out.heads != q.heads || out.dim != v.dim) {
    return invalid("[{}] out: expected shape [{}][{}][{}], but got [{}][{}][{}]", who, q.tokens, q.heads, v.dim, out.tokens,
                   out.heads, out.dim);
  }
  ROPEWALK_CHECK_OK(check_positions(who, "q_pos", inputs.q_pos, q.tokens));
  ROPEWALK_CHECK_OK(check_positions(who, "k_pos", inputs.k_pos, k.tokens));
  if (inputs.q_index < 0 || inputs.q_index > kPositionLimit) {
    return invalid("[{}] q_index: expected an index among the keys, but got {}", who, inputs.q_index);
  }
  const bool no_segments = inputs.q_segment.empty() && inputs.k_segment.empty();
  if (!no_segments && (static_cast<int64_t>(inputs.q_segment.size()) != q.tokens ||
                       static_cast<int64_t>(inputs.k_segment.size()) != k.tokens)) {
    return invalid("[{}] segments: expected {} for queries and {} for keys, or none, but got {} and {}", who, q.tokens,
                   k.tokens, inputs.q_segment.size(), inputs.k_segment.size());
  }
  if (inputs.mask != nullptr && q.tokens > 1 && inputs.mask_stride < k.tokens) {
    return invalid("[{}] mask_stride: expected at least {}, one byte a key, but got {}", who, k.tokens, inputs.mask_stride);
  }
  if (inputs.rotary != nullptr && inputs.pairs != nullptr) {
    return invalid("[{}] rotary: expected none beside a pair map, which chooses the schedules, but got one", who);
  }
  if (inputs.k_rotated && inputs.rotary == nullptr) {
    return invalid("[{}] k_rotated: expected the schedule that keys were rotated by in `rotary`, but got none", who);
  }
  if (inputs.rotary != nullptr) {
    ROPEWALK_CHECK_OK(check_schedule(who, *inputs.rotary, q.dim));
    if (inputs.k_rotated && !inputs.rotary->decay.empty())
      return invalid(
          "[{}] k_rotated: expected un-rotated keys, since the decay of a pair is formed with both, but got rotated "
          "ones",
          who);
  }
  ROPEWALK_CHECK_OK(check_axes(who, inputs));
  const bool no_types = inputs.q_type.empty() && inputs.k_type.empty();
  if (!no_types &&
      (static_cast<int64_t>(inputs.q_type.size()) != q.tokens || static_cast<int64_t>(inputs.k_type.size()) != k.tokens)) {
    return invalid("[{}] types: expected {} for queries and {} for keys, or none, but got {} and {}", who, q.tokens, k.tokens,
                   inputs.q_type.size(), inputs.k_type.size());
  }
  if (inputs.score != nullptr) ROPEWALK_CHECK_OK(check_term(who, "score", inputs.score->shape(), q.heads, q.dim));
  if (inputs.value != nullptr) ROPEWALK_CHECK_OK(check_term(who, "value", inputs.value->shape(), q.heads, v.dim));

  AttentionShape shape;
  shape.queries = q.tokens;
  shape.keys = k.tokens;
  shape.heads = q.heads;
  shape.key_heads = k.heads;
  shape.group = q.heads / k.heads;
  shape.dim = q.dim;
  shape.value_dim = v.dim;
  shape.scale = options.scale > 0 ? options.scale : 1 / std::sqrt(static_cast<double>(q.dim));
  return shape;
}

PosRange distances_of(const AttentionInputs& inputs, const AttentionOptions& options) {
  if (inputs.q_pos.empty() || inputs.k_pos.empty()) return {};
  const auto [q_low, q_high] = std::minmax_element(inputs.q_pos.begin(), inputs.q_pos.end());
  const auto [k_low, k_high] = std::minmax_element(inputs.k_pos.begin(), inputs.k_pos.end());
  PosRange range = {*q_low - *k_high, *q_high - *k_low};
  if (!options.causal || !counts_up(inputs.q_pos) || !counts_up(inputs.k_pos)) return range;
  // Hidden pairs of a block and a tile that see anything of each other are not further out than this.
  constexpr int64_t kMargin = int64_t{4} * kKeyTile;
  range.first = std::max(range.first, inputs.q_pos.front() - inputs.k_pos.front() - inputs.q_index - kMargin);
  if (options.reach.window > 0 && options.reach.sinks == 0) range.last = std::min(range.last, options.reach.window + kMargin);
  range.last = std::max(range.first, range.last);
  return range;
}

bool counts_up(std::span<const int64_t> positions) {
  return std::adjacent_find(positions.begin(), positions.end(), [](int64_t a, int64_t b) { return b != a + 1; }) ==
         positions.end();
}

std::vector<uint8_t> consecutive_tiles(std::span<const int64_t> k_pos) {
  std::vector<uint8_t> consecutive((k_pos.size() + kKeyTile - 1) / kKeyTile, 1);
  for (size_t j = 1; j < k_pos.size(); ++j) {
    if (j % kKeyTile != 0 && k_pos[j] != k_pos[j - 1] + 1) consecutive[j / kKeyTile] = 0;
  }
  return consecutive;
}

}  // namespace ropewalk
