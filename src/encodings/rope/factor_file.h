// Files that settings name: lists of factors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "encodings/rope/rules.h"
#include "ropewalk/error.h"

namespace ropewalk {

// factors:FILE. A JSON list, an object with the list under "factors", or plain text with one number a line (or separated by
// spaces or commas; '#' starts a comment). Errors: kNotFound, kIo, kCorrupt (file, place, expected, found).
Result<std::vector<double>> read_factor_file(const std::string& path);

// longrope:FILE. A JSON object with "short_factor" and "long_factor", itself or under "rope_parameters" or "rope_scaling" of a
// Hugging Face config. "attention_factor", "short_mscale" and "long_mscale" count where they are given; "factor" is the ratio
// of lengths, or max_position_embeddings / original_max_position_embeddings where the file has both.
struct LongRopeFile {
  LongRopeParams params;
  std::optional<int64_t> original;  // original_max_position_embeddings
  bool amplitude_known = false;     // false: the file holds nothing to form the amplitude from, and it is 1
};
Result<LongRopeFile> read_longrope_file(const std::string& path);

// The same over text; `name` stands for the path in messages.
Result<std::vector<double>> parse_factors(const std::string& text, const std::string& name);
Result<LongRopeFile> parse_longrope(const std::string& text, const std::string& name);

}  // namespace ropewalk
