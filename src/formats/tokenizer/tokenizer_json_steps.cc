#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "formats/tokenizer/splitting_patterns.h"
#include "formats/tokenizer/tokenizer_json.h"

namespace ropewalk {
namespace {

using nlohmann::json;

constexpr int kDeepest = 32;  // of Sequences in Sequences

// The "type" of a component. null stands for no component: an empty type.
Result<std::string> type_of(const json& component, const std::string& where) {
  if (component.is_null()) return std::string();
  if (!component.is_object() || !component.contains("type") || !component["type"].is_string()) {
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}: expected null or an object with a type, but got {}", where,
                component.type_name());
  }
  return component["type"].get<std::string>();
}

// {"String": s} or {"Regex": r}.
Result<Regex> pattern_of(const json& component, const std::string& where) {
  const auto pattern = component.find("pattern");
  if (pattern != component.end() && pattern->is_object() && pattern->size() == 1) {
    const json& value = pattern->begin().value();
    if (value.is_string() && pattern->begin().key() == "Regex") return Regex::compile(value.get_ref<const std::string&>());
    if (value.is_string() && pattern->begin().key() == "String") return Regex::literal(value.get_ref<const std::string&>());
  }
  return fail(ErrorCode::kCorrupt, "[tokenizer] {}/pattern: expected {{\"String\": text}} or {{\"Regex\": text}}, but got {}",
              where, pattern == component.end() ? "nothing" : pattern->type_name());
}

Result<const json*> steps_of(const json& component, const char* key, int depth, const std::string& where) {
  const auto steps = component.find(key);
  if (steps == component.end() || !steps->is_array()) {
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected an array, but got {}", where, key,
                steps == component.end() ? "nothing" : steps->type_name());
  }
  if (depth >= kDeepest) {
    return fail(ErrorCode::kUnsupported, "[tokenizer] {}: expected Sequences nested at most {} deep, but got more", where,
                kDeepest);
  }
  return &*steps;
}

// Read as SentencePiece's spelling of a space, so that decoding turns it back.
void note_space_symbol(BpeParts& parts, const std::string& symbol) {
  if (!symbol.empty() && symbol != " ") parts.space_symbol = symbol;
}

Result<void> read_normalizer_at(const json& component, const std::string& where, int depth, BpeParts& parts) {
  ROPEWALK_TRY(const std::string type, type_of(component, where));
  if (type.empty()) return {};
  if (type == "Sequence") {
    ROPEWALK_TRY(const json* steps, steps_of(component, "normalizers", depth, where));
    for (size_t i = 0; i < steps->size(); ++i) {
      ROPEWALK_CHECK_OK(read_normalizer_at((*steps)[i], fmt::format("{}/normalizers/{}", where, i), depth + 1, parts));
    }
  } else if (type == "Prepend") {
    ROPEWALK_TRY(std::string text, json_text(component, "prepend", "", where));
    parts.normalizer.emplace_back(Prepend{std::move(text)});
  } else if (type == "Replace") {
    ROPEWALK_TRY(Regex pattern, pattern_of(component, where));
    ROPEWALK_TRY(std::string content, json_text(component, "content", "", where));
    const json& spelled = component["pattern"];
    if (spelled.value("String", "") == " ") note_space_symbol(parts, content);
    parts.normalizer.emplace_back(Replace{std::move(pattern), std::move(content)});
  } else if (type == "NFC") {
    parts.normalizer.emplace_back(ComposeNfc{});
  } else {
    return fail(ErrorCode::kUnsupported, "[tokenizer] {}/type: expected Sequence, Prepend, Replace or NFC, but got \"{}\"",
                where, type);
  }
  return {};
}

Result<SplitBehaviour> behaviour_of(const json& component, const std::string& where) {
  ROPEWALK_TRY(const std::string name, json_text(component, "behavior", "Isolated", where));
  if (name == "Isolated") return SplitBehaviour::kIsolated;
  if (name == "Removed") return SplitBehaviour::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehaviour::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehaviour::kMergedWithNext;
  if (name == "Contiguous") return SplitBehaviour::kContiguous;
  return fail(
      ErrorCode::kUnsupported,
      "[tokenizer] {}/behavior: expected Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous, but got \"{}\"",
      where, name);
}

Result<void> read_byte_level(const json& component, const std::string& where, BpeParts& parts) {
  ROPEWALK_TRY(const bool add_space, json_flag(component, "add_prefix_space", true, where));
  ROPEWALK_TRY(const bool use_regex, json_flag(component, "use_regex", true, where));
  if (add_space) parts.splitter.emplace_back(AddSpace{});
  if (use_regex) {
    ROPEWALK_TRY(Regex regex, Regex::compile(gpt2_splitting_pattern()));
    parts.splitter.emplace_back(Split{std::move(regex), SplitBehaviour::kIsolated, false});
  }
  parts.model.byte_level = true;
  return {};
}

Result<void> read_metaspace(const json& component, const std::string& where, BpeParts& parts) {
  Metaspace step;
  ROPEWALK_TRY(step.replacement, json_text(component, "replacement", "\xE2\x96\x81", where));
  if (step.replacement.empty()) {
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}/replacement: expected a character, but got an empty string", where);
  }
  // add_prefix_space is how files before prepend_scheme say it.
  ROPEWALK_TRY(const bool add_space, json_flag(component, "add_prefix_space", true, where));
  ROPEWALK_TRY(const std::string scheme, json_text(component, "prepend_scheme", add_space ? "always" : "never", where));
  if (scheme == "always") {
    step.prepend = PrependWhen::kAlways;
  } else if (scheme == "first") {
    step.prepend = PrependWhen::kFirst;
  } else if (scheme == "never") {
    step.prepend = PrependWhen::kNever;
  } else {
    return fail(ErrorCode::kUnsupported, "[tokenizer] {}/prepend_scheme: expected always, first or never, but got \"{}\"",
                where, scheme);
  }
  ROPEWALK_TRY(step.split, json_flag(component, "split", true, where));
  note_space_symbol(parts, step.replacement);
  parts.splitter.emplace_back(std::move(step));
  return {};
}

Result<void> read_pre_tokenizer_at(const json& component, const std::string& where, int depth, BpeParts& parts) {
  ROPEWALK_TRY(const std::string type, type_of(component, where));
  if (type.empty()) return {};
  if (parts.model.byte_level) {
    return fail(ErrorCode::kUnsupported,
                "[tokenizer] {}: expected ByteLevel to be the last pre-tokenizer, but got \"{}\" behind it", where, type);
  }
  if (type == "Sequence") {
    ROPEWALK_TRY(const json* steps, steps_of(component, "pretokenizers", depth, where));
    for (size_t i = 0; i < steps->size(); ++i) {
      ROPEWALK_CHECK_OK(read_pre_tokenizer_at((*steps)[i], fmt::format("{}/pretokenizers/{}", where, i), depth + 1, parts));
    }
    return {};
  }
  if (type == "Split") {
    ROPEWALK_TRY(Regex pattern, pattern_of(component, where));
    ROPEWALK_TRY(const SplitBehaviour behaviour, behaviour_of(component, where));
    ROPEWALK_TRY(const bool invert, json_flag(component, "invert", false, where));
    parts.splitter.emplace_back(Split{std::move(pattern), behaviour, invert});
    return {};
  }
  if (type == "Digits") {
    ROPEWALK_TRY(const bool individual, json_flag(component, "individual_digits", false, where));
    ROPEWALK_TRY(Regex pattern, Regex::compile(individual ? R"(\p{N})" : R"(\p{N}+)"));
    parts.splitter.emplace_back(Split{std::move(pattern), SplitBehaviour::kIsolated, false});
    return {};
  }
  if (type == "ByteLevel") return read_byte_level(component, where, parts);
  if (type == "Metaspace") return read_metaspace(component, where, parts);
  return fail(ErrorCode::kUnsupported,
              "[tokenizer] {}/type: expected Sequence, Split, Digits, ByteLevel or Metaspace, but got \"{}\"", where, type);
}

}  // namespace

Result<bool> json_flag(const json& object, const char* key, bool fallback, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  if (found->is_boolean()) return found->get<bool>();
  return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected true or false, but got {}", where, key, found->type_name());
}

Result<std::string> json_text(const json& object, const char* key, const char* fallback, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::string(fallback);
  if (found->is_string()) return found->get<std::string>();
  return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected a string, but got {}", where, key, found->type_name());
}

Result<void> read_normalizer(const json& component, const std::string& where, BpeParts& parts) {
  return read_normalizer_at(component, where, 0, parts);
}

Result<void> read_pre_tokenizer(const json& component, const std::string& where, BpeParts& parts) {
  return read_pre_tokenizer_at(component, where, 0, parts);
}

}  // namespace ropewalk
