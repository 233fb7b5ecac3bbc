#include "encodings/rope/settings_grammar.h"

#include <charconv>
#include <cmath>

namespace ropewalk::settings {

std::span<const RuleSpec> rules() {
  using K = ValueKind;
  static const std::vector<RuleSpec> kRules = {
      {"none", K::kNone, {}, "none"},
      {"plain", K::kNone, {}, "plain"},
      {"theta", K::kPositive, {}, "theta:X"},
      {"linear", K::kPositive, {}, "linear:S"},
      {"ntk", K::kPositive, {}, "ntk:S"},
      {"ntk_alpha", K::kPositive, {}, "ntk_alpha:A"},
      {"gradient", K::kLength, {}, "gradient:L"},
      {"dynamic", K::kPositive, {{"step", K::kLength}, {"horizon", K::kLength}}, "dynamic:S[:step=K|:horizon=N]"},
      {"yarn",
       K::kPositive,
       {{"beta_fast", K::kPositive},
        {"beta_slow", K::kPositive},
        {"attention_factor", K::kPositive},
        {"truncate", K::kSwitch},
        {"mscale", K::kNonNegative},
        {"mscale_all_dim", K::kNonNegative}},
       "yarn:S[:beta_fast=..][:beta_slow=..][:attention_factor=..][:truncate=0|1][:mscale=..][:mscale_all_dim=..]"},
      {"llama3", K::kPositive, {{"low", K::kPositive}, {"high", K::kPositive}}, "llama3:S[:low=..][:high=..]"},
      {"longrope", K::kFile, {{"step", K::kLength}, {"horizon", K::kLength}}, "longrope:FILE[:step=K|:horizon=N]"},
      {"factors", K::kFile, {}, "factors:FILE"},
      {"logn", K::kNone, {}, "logn"},
      {"window", K::kLength, {}, "window:W"},
      {"sinks", K::kLength, {{"window", K::kLength}}, "sinks:N:window=W"},
      {"self_extend", K::kLength, {{"window", K::kLength}}, "self_extend:G:window=W"},
      {"rerope", K::kLength, {{"leak", K::kPositive}}, "rerope:W[:leak=K]"},
      {"dual_chunk", K::kLength, {{"window", K::kLength}}, "dual_chunk:C:window=W"},
  };
  return kRules;
}

std::vector<KeySpec> RuleSpec::all_keys() const {
  std::vector<KeySpec> all = keys;
  all.push_back({"original", ValueKind::kLength});
  all.push_back({"layers", ValueKind::kLayers});
  return all;
}

std::optional<ValueKind> RuleSpec::key_kind(std::string_view key) const {
  for (const KeySpec& k : all_keys()) {
    if (key == k.name) return k.kind;
  }
  return std::nullopt;
}

std::string RuleSpec::key_names() const {
  std::string names;
  for (const KeySpec& k : all_keys()) names += (names.empty() ? "" : ", ") + std::string(k.name);
  return names;
}

const RuleSpec* find_rule(std::string_view name) {
  for (const RuleSpec& rule : rules()) {
    if (name == rule.name) return &rule;
  }
  return nullptr;
}

std::string known_rules() {
  std::string names;
  for (const RuleSpec& rule : rules()) names += (names.empty() ? "" : ", ") + std::string(rule.name);
  return names;
}

std::optional<double> parse_number(std::string_view text) {
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || !std::isfinite(x)) return std::nullopt;
  return x;
}

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t unit = 1;
  if (text.ends_with('k') || text.ends_with('K')) unit = 1024;
  if (text.ends_with('m') || text.ends_with('M')) unit = 1024 * 1024;
  if (unit > 1) text.remove_suffix(1);
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (text.empty() || text.front() == '-' || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  constexpr int64_t kLimit = int64_t{1} << 40;  // far beyond any position, far from overflow
  if (n > kLimit / unit) return std::nullopt;
  return n * unit;
}

std::optional<LayerChoice> parse_layers(std::string_view text) {
  LayerChoice choice;
  if (text == "full" || text == "sliding") {
    choice.kind = text == "full" ? LayerChoice::Kind::kFull : LayerChoice::Kind::kSliding;
    return choice;
  }
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const size_t dash = part.find('-');
    const auto first = parse_count(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_count(part.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    choice.ranges.emplace_back(*first, *last);
    if (comma == std::string_view::npos) return choice;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace ropewalk::settings
