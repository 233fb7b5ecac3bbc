// Tables that come from elsewhere, and frequencies that a file stores.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ropewalk/dtype.h"
#include "ropewalk/error.h"
#include "ropewalk/rotary.h"

namespace ropewalk {

// cos and sin that a caller computed: row m of [rows][planes] is position m.
struct CallerTable {
  const void* cos = nullptr;
  const void* sin = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int planes = 0;
};

// The rows of the given positions. Errors: kUnsupported for a table in f16 or bf16 (the small sines are lost in it and cannot
// be got back), kInvalidArgument for a position outside [0, rows), naming both.
Result<RotaryTable> rows_of_table(const CallerTable& table, std::span<const int64_t> positions);

// The config defines the frequencies; a buffer in the weights (cast, stale, never initialised) is only compared with them.
// Returns the warning to show, or nothing when the buffer is the float32 rounding of the schedule, give or take 2 ulp.
std::optional<std::string> check_stored_frequencies(const RotarySchedule& schedule, std::string_view tensor,
                                                    std::span<const float> stored);

}  // namespace ropewalk
