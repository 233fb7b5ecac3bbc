// Against independent implementations: golden.json, written by golden.py with Hugging Face tokenizers and sentencepiece.
#include "formats/tokenizer/chat.h"
#include "formats/tokenizer/nfc.h"
#include "formats/tokenizer/testing_tokenizer.h"
#include "formats/tokenizer/tokenizer_json.h"

namespace ropewalk {
namespace {

using nlohmann::json;
using testing::golden;
using testing::Ids;
using testing::TokenizerKeys;

TEST(TokenizerGolden, ByteLevelWithEverySplittingPattern) {
  const json& data = golden()["byte_level"];
  ASSERT_GE(data["patterns"].size(), 6U);
  for (const auto& [pre, rows] : data["patterns"].items()) {
    TokenizerKeys keys;
    keys.model = "gpt2";
    keys.pre = pre;
    keys.tokens = data["tokens"].get<std::vector<std::string>>();
    keys.merges = data["merges"].get<std::vector<std::string>>();
    const auto tokenizer = keys.make();
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::string text = golden()["texts"][i];
      EXPECT_EQ((*tokenizer)->encode(text), rows[i].get<Ids>()) << pre << ": " << text;
      EXPECT_EQ((*tokenizer)->decode(rows[i].get<Ids>()), text) << pre;
    }
  }
}

TEST(TokenizerGolden, SentencePiece) {
  ASSERT_EQ(golden()["sentencepiece"].size(), 5U);
  for (const json& model : golden()["sentencepiece"]) {
    const std::string name = model["name"];
    TokenizerKeys keys;
    keys.model = "llama";
    keys.tokens = model["tokens"].get<std::vector<std::string>>();
    keys.scores = model["scores"].get<std::vector<float>>();
    keys.types = model["types"].get<std::vector<int32_t>>();
    keys.flags = {{"add_space_prefix", model["prefix"].get<bool>()}};
    const auto tokenizer = keys.make();
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    for (size_t i = 0; i < model["ids"].size(); ++i) {
      const std::string text = golden()["texts"][i];
      const Ids ids = model["ids"][i].get<Ids>();
      EXPECT_EQ((*tokenizer)->encode(text), ids) << name << ": " << text;
      if (name == "unknown" || text.find("\xE2\x96\x81") != std::string::npos) continue;  // not kept by such a vocabulary
      const std::string prefix = model["prefix"].get<bool>() && !text.empty() ? " " : "";
      EXPECT_EQ((*tokenizer)->decode(ids), prefix + text) << name;
    }
  }
}

TEST(TokenizerGolden, TokenizerJson) {
  const json& data = golden()["json"];
  ASSERT_GE(data["cases"].size(), 18U);
  for (const auto& [name, one] : data["cases"].items()) {
    json file = one["json"];
    const json& model = data["models"][one["model"].get<size_t>()];
    file["model"].update(model);
    for (const bool joined : {false, true}) {  // merges as ["a", "b"] and, as older files have them, as "a b"
      if (joined) {
        for (json& merge : file["model"]["merges"]) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
      }
      const auto tokenizer = parse_tokenizer_json({"test", file.dump(), "", ""});
      ASSERT_TRUE(tokenizer) << name << tokenizer.error().message();
      for (size_t i = 0; i < data["texts"].size(); ++i) {
        const std::string text = data["texts"][i];
        EXPECT_EQ((*tokenizer)->encode(text, true), one["ids"][i].get<Ids>()) << name << ": " << text;
      }
    }
  }
}

TEST(TokenizerGolden, NormalizationFormC) {
  ASSERT_EQ(golden()["nfc"].size(), 150U);
  for (const json& row : golden()["nfc"]) {
    EXPECT_EQ(compose_nfc(row[0].get<std::string>()), row[1].get<std::string>()) << row.dump(-1, ' ', true);
  }
}

TEST(ChatGolden, RendersWhatTheTemplatesRender) {
  for (const json& one : golden()["chat"]) {
    const auto format = find_chat_format(one["template"].get<std::string>());
    ASSERT_TRUE(format) << one["name"] << format.error().message();
    for (const json& chat : one["chats"]) {
      std::vector<ChatTurn> turns;
      for (const json& turn : chat["turns"]) {
        const std::string role = turn[0];
        turns.push_back({role == "system" ? ChatRole::kSystem
                         : role == "user" ? ChatRole::kUser
                                          : ChatRole::kAssistant,
                         turn[1]});
      }
      const auto text = render_chat(*format, turns, "<BOS>", "<EOS>", false);
      ASSERT_TRUE(text) << text.error().message();
      EXPECT_EQ(*text, chat["text"].get<std::string>()) << one["name"];
    }
  }
}

}  // namespace
}  // namespace ropewalk
