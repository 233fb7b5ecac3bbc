// Strict JSON out of files that may be hostile: no duplicate keys, no NaN or Infinity, numbers that fit, valid UTF-8, bounded
// depth and size, nothing after the value.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ropewalk/error.h"

namespace ropewalk {

struct JsonSource {
  std::string_view who;  // "config", "safetensors": the [who] of messages
  std::string name;      // file, for messages
  size_t offset = 0;     // byte of the file at which the text begins, for messages
  size_t max_bytes = 16u << 20u;
  int max_depth = 64;
};

// Errors: kCorrupt (with byte offset, and the key path where there is one), kTooLarge (size, depth or memory).
Result<nlohmann::json> parse_json(std::string_view text, const JsonSource& source);

// A value for a message: its JSON text, cut to a readable length.
std::string describe(const nlohmann::json& value);

}  // namespace ropewalk
