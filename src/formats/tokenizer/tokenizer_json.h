// Hugging Face tokenizer files, as text.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>
#include <string_view>

#include "formats/tokenizer/bpe_tokenizer.h"
#include "formats/tokenizer/tokenizer.h"

namespace ropewalk {

struct TokenizerFiles {
  std::string folder;         // for messages
  std::string tokenizer;      // tokenizer.json
  std::string config;         // tokenizer_config.json; empty: there is none
  std::string chat_template;  // chat_template.jinja; empty: there is none, or it is in the config
};

// Errors as load_tokenizer_json, which reads the files.
Result<std::unique_ptr<Tokenizer>> parse_tokenizer_json(const TokenizerFiles& files);

// The "normalizer" and "pre_tokenizer" of tokenizer.json. `where` names file and key in messages. Unknown components are
// kUnsupported, by name.
Result<void> read_normalizer(const nlohmann::json& json, const std::string& where, BpeParts& parts);
Result<void> read_pre_tokenizer(const nlohmann::json& json, const std::string& where, BpeParts& parts);

// Typed members of an object. Absent or null: the fallback; another type: kCorrupt, naming key, expected and found.
Result<bool> json_flag(const nlohmann::json& object, const char* key, bool fallback, const std::string& where);
Result<std::string> json_text(const nlohmann::json& object, const char* key, const char* fallback, const std::string& where);

}  // namespace ropewalk
