// The rules that a setting may name, as data: what value each takes and which keys. Internal to settings_*.cc and the help
// texts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ropewalk::settings {

enum class ValueKind : uint8_t { kNone, kPositive, kNonNegative, kLength, kSwitch, kFile, kLayers };

struct KeySpec {
  const char* name;
  ValueKind kind;
};

struct RuleSpec {
  const char* name;
  ValueKind value;
  std::vector<KeySpec> keys;  // beside `original` and `layers`, which all rules take
  const char* form;           // for messages and help: "yarn:S[:beta_fast=..]..."

  std::vector<KeySpec> all_keys() const;
  std::optional<ValueKind> key_kind(std::string_view key) const;
  std::string key_names() const;  // "step, horizon, original, layers"
};

std::span<const RuleSpec> rules();
const RuleSpec* find_rule(std::string_view name);  // null when unknown
std::string known_rules();                         // "none, plain, theta, ..."

// "4", "1e6": finite, the whole text. "8192", "8k", "1m": whole, non-negative, the whole text.
std::optional<double> parse_number(std::string_view text);
std::optional<int64_t> parse_count(std::string_view text);

// The value of layers=: all layers of one kind, or closed ranges of indices.
struct LayerChoice {
  enum class Kind : uint8_t { kFull, kSliding, kRanges } kind = Kind::kRanges;
  std::vector<std::pair<int64_t, int64_t>> ranges;
};
std::optional<LayerChoice> parse_layers(std::string_view text);

}  // namespace ropewalk::settings
