#include "encodings/rope/factor_file.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/fail.h"
#include "encodings/rope/settings_grammar.h"

namespace ropewalk {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBytes = 16 << 20;

Result<std::vector<double>> numbers(const Json& list, const std::string& name, const std::string& key) {
  if (!list.is_array()) {
    return fail(ErrorCode::kCorrupt, "[factors] {}/{}: expected a list of numbers, but got {}", name, key, list.type_name());
  }
  std::vector<double> out;
  for (const Json& item : list) {
    if (!item.is_number()) {
      return fail(ErrorCode::kCorrupt, "[factors] {}/{}[{}]: expected a number, but got {}", name, key, out.size(),
                  item.type_name());
    }
    out.push_back(item.get<double>());
  }
  if (out.empty())
    return fail(ErrorCode::kCorrupt, "[factors] {}/{}: expected at least one number, but got an empty list", name, key);
  return out;
}

Result<std::optional<double>> optional_number(const Json& object, const char* key, const std::string& name) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return std::optional<double>();
  if (!it->is_number() || !(it->get<double>() > 0)) {
    return fail(ErrorCode::kCorrupt, "[longrope] {}/{}: expected a number > 0, but got {}", name, key, it->dump());
  }
  return std::optional<double>(it->get<double>());
}

Result<std::vector<double>> parse_plain_text(const std::string& text, const std::string& name) {
  std::vector<double> out;
  int line = 1;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (c == '\n' || c == ' ' || c == '\t' || c == '\r' || c == ',') {
      line += c == '\n';
      ++i;
    } else {
      const size_t end = std::min(text.find_first_of(" \t\r\n,#", i), text.size());
      const std::string word = text.substr(i, end - i);
      const auto x = settings::parse_number(word);
      if (!x) return fail(ErrorCode::kCorrupt, "[factors] {}, line {}: expected a number, but got '{}'", name, line, word);
      out.push_back(*x);
      i = end;
    }
  }
  if (out.empty()) return fail(ErrorCode::kCorrupt, "[factors] {}: expected at least one number, but got none", name);
  return out;
}

Json parse_json(const std::string& text) { return Json::parse(text, nullptr, false); }

}  // namespace

Result<std::vector<double>> parse_factors(const std::string& text, const std::string& name) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  const bool json = start != std::string::npos && (text[start] == '[' || text[start] == '{');
  if (!json) return parse_plain_text(text, name);
  const Json root = parse_json(text);
  if (root.is_discarded()) return fail(ErrorCode::kCorrupt, "[factors] {}: expected JSON, but it does not parse", name);
  if (root.is_array()) return numbers(root, name, "");
  const auto it = root.find("factors");
  if (it == root.end())
    return fail(ErrorCode::kCorrupt, "[factors] {}: expected a list or the key \"factors\", but got neither", name);
  return numbers(*it, name, "factors");
}

Result<LongRopeFile> parse_longrope(const std::string& text, const std::string& name) {
  const Json root = parse_json(text);
  if (!root.is_object())
    return fail(ErrorCode::kCorrupt, "[longrope] {}: expected a JSON object, but got something else", name);
  Json box = root;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto it = root.find(key);
    if (it != root.end() && it->is_object()) box = *it;
  }
  LongRopeFile file;
  for (const auto& [key, list] :
       {std::pair{"short_factor", &file.params.short_factor}, {"long_factor", &file.params.long_factor}}) {
    const auto it = box.find(key);
    if (it == box.end())
      return fail(ErrorCode::kCorrupt, "[longrope] {}/{}: expected a list of numbers, but the key is absent", name, key);
    ROPEWALK_TRY(*list, numbers(*it, name, key));
  }
  ROPEWALK_TRY(file.params.attention_factor, optional_number(box, "attention_factor", name));
  ROPEWALK_TRY(file.params.short_mscale, optional_number(box, "short_mscale", name));
  ROPEWALK_TRY(file.params.long_mscale, optional_number(box, "long_mscale", name));
  ROPEWALK_TRY(auto original, optional_number(box, "original_max_position_embeddings", name));
  if (!original) {
    ROPEWALK_TRY(original, optional_number(root, "original_max_position_embeddings", name));
  }
  if (original && (*original < 1 || *original > 0x1p40 || *original != std::floor(*original))) {
    return fail(ErrorCode::kCorrupt, "[longrope] {}/original_max_position_embeddings: expected a whole number >= 1, but got {}",
                name, *original);
  }
  if (original) file.original = static_cast<int64_t>(*original);
  ROPEWALK_TRY(auto factor, optional_number(box, "factor", name));
  ROPEWALK_TRY(const auto claimed, optional_number(root, "max_position_embeddings", name));
  if (!factor && claimed && original) factor = *claimed / *original;
  if (factor) file.params.factor = *factor;
  const auto& p = file.params;
  file.amplitude_known = factor || p.attention_factor || (p.short_mscale && p.long_mscale);
  return file;
}

Result<std::vector<double>> read_factor_file(const std::string& path) {
  ROPEWALK_TRY(const std::string text, read_file(path, kMaxBytes));
  return parse_factors(text, path);
}

Result<LongRopeFile> read_longrope_file(const std::string& path) {
  ROPEWALK_TRY(const std::string text, read_file(path, kMaxBytes));
  return parse_longrope(text, path);
}

}  // namespace ropewalk
