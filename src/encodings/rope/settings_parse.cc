// The grammar of settings: name[:value][:key=value...] joined by '+', lists separated by ',', quotes around values that need
// them.
#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "encodings/rope/settings.h"
#include "encodings/rope/settings_grammar.h"

namespace ropewalk {
namespace {

std::string_view trim(std::string_view s) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

// Splits at `separator` outside double quotes; the quotes stay. Errors: kInvalidArgument when a quote is not closed.
Result<std::vector<std::string_view>> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (text[i] != separator || quoted) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  if (quoted)
    return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected a closing double quote, but got the end of the text",
                text);
  parts.push_back(text.substr(begin));
  return parts;
}

// abc | "abc"; quotes elsewhere are an error.
Result<std::string> unquote(std::string_view text, std::string_view setting) {
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  const std::string_view inner = quoted ? text.substr(1, text.size() - 2) : text;
  if (inner.find('"') != std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected double quotes around a whole value, but got '{}'", setting,
                text);
  }
  return std::string(inner);
}

std::string quote_if_needed(const std::string& value) {
  const bool plain = value.find_first_of(",:+ \t") == std::string::npos;
  return plain ? value : '"' + value + '"';
}

// Checks a value of the given kind and rewrites it in its canonical spelling.
Result<void> canonize(settings::ValueKind kind, std::string& value, const std::string& what, std::string_view setting) {
  using settings::ValueKind;
  const auto expected = [&](const char* form) {
    return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected {} to be {}, but got '{}'", setting, what, form, value);
  };
  switch (kind) {
    case ValueKind::kNone:
      if (!value.empty()) return expected("absent");
      return {};
    case ValueKind::kPositive:
    case ValueKind::kNonNegative: {
      const auto x = settings::parse_number(value);
      const bool positive = kind == ValueKind::kPositive;
      if (!x || *x < 0 || (positive && *x == 0)) return expected(positive ? "a number > 0" : "a number >= 0");
      value = fmt::format("{}", *x);
      return {};
    }
    case ValueKind::kLength: {
      const auto n = settings::parse_count(value);
      if (!n || *n < 1) return expected("a whole number >= 1 such as 16384 or 16k");
      value = fmt::format("{}", *n);
      return {};
    }
    case ValueKind::kSwitch:
      if (value != "0" && value != "1") return expected("0 or 1");
      return {};
    case ValueKind::kFile:
      if (value.empty()) return expected("the path of a file");
      return {};
    case ValueKind::kLayers:
      if (!settings::parse_layers(value))
        return expected("full, sliding, or layers such as 3-11 (several in quotes: \"0,3-11\")");
      return {};
  }
  return {};
}

Result<Rule> parse_rule(std::string_view text, std::string_view setting) {
  ROPEWALK_TRY(const auto fields, split(text, ':'));
  Rule rule;
  rule.name = std::string(trim(fields[0]));
  const settings::RuleSpec* spec = settings::find_rule(rule.name);
  if (spec == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected one of {}, but got '{}'", setting, settings::known_rules(),
                rule.name);
  }
  size_t next = 1;
  if (spec->value != settings::ValueKind::kNone) {
    if (fields.size() < 2 || fields[1].empty()) {
      return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected {}, but got '{}' without a value", setting, spec->form,
                  text);
    }
    ROPEWALK_TRY(rule.value, unquote(fields[next++], setting));
    ROPEWALK_CHECK_OK(canonize(spec->value, rule.value, rule.name + "'s value", setting));
  }
  for (; next < fields.size(); ++next) {
    const std::string_view field = fields[next];
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos) {
      return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected {}, but got '{}' where key=value may stand", setting,
                  spec->form, field);
    }
    const std::string key(field.substr(0, equals));
    const auto kind = spec->key_kind(key);
    if (!kind) {
      return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected a key of {} ({}), but got '{}'", setting, rule.name,
                  spec->key_names(), key);
    }
    ROPEWALK_TRY(std::string value, unquote(field.substr(equals + 1), setting));
    ROPEWALK_CHECK_OK(canonize(*kind, value, key, setting));
    if (!rule.options.emplace(key, value).second) {
      return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected {} once, but got it twice", setting, key);
    }
  }
  return rule;
}

std::string canonical_text(const Rule& rule) {
  std::string text = rule.name;
  if (!rule.value.empty()) text += ':' + quote_if_needed(rule.value);
  // The order of the documentation, not of the alphabet.
  for (const auto& key : settings::find_rule(rule.name)->all_keys()) {
    const auto it = rule.options.find(key.name);
    if (it != rule.options.end()) text += fmt::format(":{}={}", key.name, quote_if_needed(it->second));
  }
  return text;
}

// What contradicts itself whatever the model.
Result<void> check_together(const Setting& setting) {
  for (size_t i = 0; i < setting.rules.size(); ++i) {
    const Rule& rule = setting.rules[i];
    if (rule.name == "plain" && i > 0) {
      return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected plain to stand first (plain+RULE), but got it after {}",
                  setting.text, setting.rules[i - 1].name);
    }
    if (rule.options.contains("step") && rule.options.contains("horizon")) {
      return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected step or horizon, but got both", setting.text);
    }
  }
  return {};
}

}  // namespace

Result<Setting> parse_setting(std::string_view text) {
  const std::string_view trimmed = trim(text);
  if (trimmed.empty()) {
    return fail(ErrorCode::kInvalidArgument, "[setting] expected one of {}, but got an empty setting", settings::known_rules());
  }
  ROPEWALK_TRY(const auto parts, split(trimmed, '+'));
  Setting setting;
  for (const std::string_view part : parts) {
    ROPEWALK_TRY(Rule rule, parse_rule(trim(part), trimmed));
    if (!setting.text.empty()) setting.text += '+';
    setting.text += canonical_text(rule);
    setting.rules.push_back(std::move(rule));
  }
  ROPEWALK_CHECK_OK(check_together(setting));
  return setting;
}

Result<std::vector<Setting>> parse_settings(std::string_view list) {
  ROPEWALK_TRY(const auto parts, split(list, ','));
  std::vector<Setting> settings;
  for (const std::string_view part : parts) {
    if (parts.size() > 1 && trim(part).empty()) {
      return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected a setting between the commas, but got nothing", list);
    }
    ROPEWALK_TRY(Setting setting, parse_setting(part));
    settings.push_back(std::move(setting));
  }
  return settings;
}

}  // namespace ropewalk
