#include "formats/tokenizer/splitting_patterns.h"

#include <algorithm>

namespace ropewalk {
namespace {

// Radford et al. 2019 (GPT-2).
constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// One digit or number sign at a time.
constexpr std::string_view kNumber = R"(\p{N})";
// GPT-4's, up to three digits at a time (Llama 3); Qwen 2 takes single digits.
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Words split where upper case begins (GPT-4o's family).
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                                     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                                     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::vector<SplittingPattern>& table() {
  static const std::vector<SplittingPattern> patterns = {
      // What files without the key, or with this value, were made for: punctuation apart, then GPT-2, then numbers by threes.
      {{"default"}, {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
      {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "exaone4", "granite-docling"}, {kGpt2}},
      {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}, {kNumber, kGpt2}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"}, {kLlama3}, true, true},
      {{"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, {kLlama3}},
      {{"qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan"}, {kQwen2}},
      {{"falcon"}, {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, "[0-9][0-9][0-9]"}},
      {{"gpt-4o", "llama4"}, {kGpt4o}},
      {{"tekken"}, {kTekken}, true, true},
      {{"deepseek-v3"}, {R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)", kDeepseek3}},
  };
  return patterns;
}

}  // namespace

const SplittingPattern* find_splitting_pattern(std::string_view name) {
  for (const SplittingPattern& pattern : table()) {
    if (std::find(pattern.names.begin(), pattern.names.end(), name) != pattern.names.end()) return &pattern;
  }
  return nullptr;
}

std::string splitting_pattern_names() {
  std::string names;
  for (const SplittingPattern& pattern : table()) {
    for (const std::string_view name : pattern.names) {
      if (!names.empty()) names += ", ";
      names += name;
    }
  }
  return names;
}

bool adds_bos(std::string_view name) {
  const SplittingPattern* pattern = find_splitting_pattern(name);
  return pattern != nullptr && pattern->adds_bos;
}

bool ignores_merges(std::string_view name) {
  const SplittingPattern* pattern = find_splitting_pattern(name);
  return pattern != nullptr && pattern->ignores_merges;
}

std::string_view gpt2_splitting_pattern() { return kGpt2; }

}  // namespace ropewalk
