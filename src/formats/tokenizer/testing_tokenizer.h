// For the tests of the tokenizers: files built in memory.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "formats/testing_bytes.h"
#include "formats/tokenizer/tokenizer.h"

namespace ropewalk::testing {

// The tokenizer keys of a GGUF file.
struct TokenizerKeys {
  std::string model;
  std::string pre;  // empty: no key
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  std::vector<std::string> merges;
  std::vector<std::pair<std::string, uint32_t>> ids;  // "bos_token_id", ...
  std::vector<std::pair<std::string, bool>> flags;    // "add_space_prefix", ...
  std::string chat_template;

  std::string build() const {
    constexpr std::string_view kPrefix = "tokenizer.ggml.";
    const auto name = [&](std::string_view key) { return std::string(kPrefix) + std::string(key); };
    const auto strings = [](const std::vector<std::string>& list) {
      std::string out = GgufBuilder::raw<uint32_t>(8) + GgufBuilder::raw<uint64_t>(list.size());
      for (const std::string& text : list) out += GgufBuilder::string(text);
      return out;
    };
    GgufBuilder builder;
    builder.text("general.architecture", "llama");
    if (!model.empty()) builder.text(name("model"), model);
    if (!pre.empty()) builder.text(name("pre"), pre);
    if (!tokens.empty()) builder.key(name("tokens"), 9, strings(tokens));
    if (!scores.empty()) builder.array(name("scores"), 6, scores);
    if (!types.empty()) builder.array(name("token_type"), 5, types);
    if (!merges.empty()) builder.key(name("merges"), 9, strings(merges));
    for (const auto& [key, id] : ids) builder.u32(name(key), id);
    for (const auto& [key, on] : flags) builder.key(name(key), 7, GgufBuilder::raw<uint8_t>(on ? 1 : 0));
    if (!chat_template.empty()) builder.text("tokenizer.chat_template", chat_template);
    return builder.build();
  }

  // The tokenizer owns all it needs: the bytes are gone when this returns.
  Result<std::unique_ptr<Tokenizer>> make() const {
    const std::string bytes = build();
    auto file = GgufFile::parse(as_bytes(bytes), "test.gguf");
    if (!file) return file.error();
    return make_tokenizer(**file);
  }
};

inline const nlohmann::json& golden() {
  static const nlohmann::json data = [] {
    std::ifstream in(ROPEWALK_SOURCE_DIR "/src/formats/tokenizer/golden.json");
    return nlohmann::json::parse(in, nullptr, false);
  }();
  return data;
}

using Ids = std::vector<int32_t>;

}  // namespace ropewalk::testing
