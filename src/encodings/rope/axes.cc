#include "ropewalk/axes.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"

namespace ropewalk {

Result<std::vector<uint8_t>> axis_of_planes(std::span<const int> sections, int planes, bool turns) {
  int64_t sum = 0;
  bool valid = !sections.empty() && sections.size() <= 255;
  for (const int section : sections) {
    valid = valid && section >= 0;
    sum += section;
  }
  if (!valid || sum != planes) {
    return fail(ErrorCode::kInvalidArgument, "[axes] expected sections of 0 or more that sum to {} planes, but got {} in sum",
                planes, sum);
  }
  std::vector<uint8_t> axis;
  if (!turns) {
    for (size_t a = 0; a < sections.size(); ++a)
      axis.insert(axis.end(), static_cast<size_t>(sections[a]), static_cast<uint8_t>(a));
    return axis;
  }
  if (sections.size() < 3 || std::any_of(sections.begin() + 3, sections.end(), [](int s) { return s != 0; }))
    return fail(ErrorCode::kInvalidArgument, "[axes] expected three sections for planes in turns, but got {}", sections.size());
  for (int i = 0; i < planes; ++i) {
    const int a = i % 3;
    axis.push_back(a > 0 && i < 3 * sections[static_cast<size_t>(a)] ? static_cast<uint8_t>(a) : uint8_t{0});
  }
  return axis;
}

Result<AxisPositions> axis_positions(std::span<const AxisPart> parts, int64_t first) {
  constexpr int64_t kMost = int64_t{1} << 31;
  std::vector<int64_t> axes[3];
  int64_t next = first;
  for (const AxisPart& part : parts) {
    const bool text = part.text > 0 && part.rows == 0 && part.cols == 0;
    const bool image = part.text == 0 && part.rows > 0 && part.cols > 0 && part.frames > 0;
    if (!text && !image) {
      return fail(ErrorCode::kInvalidArgument,
                  "[axes] expected a part of text tokens, or of rows, columns and frames, but got text {}, rows {}, cols {}, "
                  "frames {}",
                  part.text, part.rows, part.cols, part.frames);
    }
    const int64_t frames = text ? 1 : part.frames, rows = text ? 1 : part.rows, cols = text ? part.text : part.cols;
    const auto too_large = [&](int64_t count) { return count > kMost; };
    if (too_large(frames) || too_large(rows) || too_large(cols) || too_large(frames * rows) ||
        static_cast<double>(frames * rows) * static_cast<double>(cols) + static_cast<double>(axes[0].size()) > 0x1p28) {
      return fail(ErrorCode::kTooLarge, "[axes] expected at most 2^28 tokens, but got a part of {} x {} x {}", frames, rows,
                  cols);
    }
    for (int64_t i = 0; i < frames * rows * cols; ++i) {
      axes[0].push_back(next + (text ? i : i / (rows * cols)));
      axes[1].push_back(next + (text ? i : i / cols % rows));
      axes[2].push_back(next + (text ? i : i % cols));
    }
    next += std::max({frames, rows, cols});
  }
  AxisPositions out;
  for (const auto& axis : axes) out.positions.insert(out.positions.end(), axis.begin(), axis.end());
  out.next = next;
  out.delta = next - first - static_cast<int64_t>(axes[0].size());
  return out;
}

Result<RotarySchedule> make_rotary_2d(double theta, int dim, bool alternate) {
  if (dim < 4 || dim % 4 != 0)
    return fail(ErrorCode::kInvalidArgument, "[axes] expected a head size that is a multiple of 4, but got {}", dim);
  ROPEWALK_TRY(RotarySchedule schedule, make_rotary_schedule(theta, dim, dim, Pairing::kHalves));
  const std::vector<double> all = schedule.inv_freq;
  const size_t half = std::max<size_t>(all.size() / 2, 1);
  for (size_t i = 0; i < 2 * half; ++i) {
    const size_t place = i % half;
    schedule.inv_freq[i] = all[alternate ? 2 * place + (i < half ? 0 : 1) : 2 * place];
    schedule.axis.push_back(i < half ? 0 : 1);
  }
  schedule.theta = 0;  // not the plain rule any more
  return schedule;
}

}  // namespace ropewalk
