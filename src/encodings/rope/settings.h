// Settings: how a model's frequencies are changed, as a user writes it ("yarn:4:beta_fast=16", "plain+ntk:2", "ntk:4+logn").
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropewalk/encoding.h"
#include "ropewalk/error.h"
#include "ropewalk/rotary.h"

namespace ropewalk {

// One rule with its parameters, checked: name is known, value present where needed, keys known, numbers in range.
struct Rule {
  std::string name;                            // "none", "plain", "theta", "linear", "ntk", ...
  std::string value;                           // what stands after the first ':'; empty when nothing
  std::map<std::string, std::string> options;  // key=value pairs
};

struct Setting {
  std::string text;         // as given, canonical spelling
  std::vector<Rule> rules;  // joined by '+'
};

// Errors: kInvalidArgument, naming the setting, the offending part, and what is expected (known names are listed).
Result<Setting> parse_setting(std::string_view text);
// A list separated by commas outside double quotes.
Result<std::vector<Setting>> parse_settings(std::string_view list);

// The position scheme of one layer before a setting is applied.
struct RotaryLayer {
  const RotarySchedule* trained = nullptr;  // null: the layer does not rotate
  const RotarySchedule* plain = nullptr;    // the bare base without the file's scaling; may equal trained
  bool global = true;                       // false: a local (sliding-window) layer of a model that has both kinds
  Reach reach;
};

// ... and after: what attention is given.
struct AppliedLayer {
  std::optional<RotarySchedule> rotary;
  std::shared_ptr<const PairMap> pairs;  // replaces rotary where present (rules with steps, and on pairs)
  Reach reach;
};

struct AppliedSetting {
  std::vector<AppliedLayer> layers;
  std::vector<std::string> notes;  // which of two readings was meant, which layers a rule acts on: for the plan
};

// `context_trained` = L0; `context_original` = the file's original length, for plain+ (equal to L0 when the file has none).
// `length` = the length in use, which the rules with a horizon default to.
// Errors: kInvalidArgument (a rule that this model or layer cannot take), kNotFound / kCorrupt (a factor file).
Result<AppliedSetting> apply_setting(const Setting& setting, const std::vector<RotaryLayer>& layers, int64_t context_trained,
                                     int64_t context_original, int64_t length);

}  // namespace ropewalk
