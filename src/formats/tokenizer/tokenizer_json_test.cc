// tokenizer.json and tokenizer_config.json: what is refused, and what the configuration says.
#include "formats/tokenizer/tokenizer_json.h"

#include "base/testing_folder.h"
#include "formats/tokenizer/testing_tokenizer.h"

namespace ropewalk {
namespace {

using testing::expect_error_names;
using testing::Ids;

Result<std::unique_ptr<Tokenizer>> parse(const std::string& tokenizer, const std::string& config = "") {
  return parse_tokenizer_json({"folder", tokenizer, config, ""});
}

std::string with(const std::string& members) {
  return R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<s>": 3}, "merges": ["a b"]})" + members + "}";
}

TEST(TokenizerJson, CaseFilTokenizer) {
  expect_error_names(parse(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}})"), {"a b", "ab"});
  expect_error_names(parse(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}})"), {"a", "b", "0"});
  expect_error_names(parse(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a"]}})"),
                     {"merges", "0"});
  expect_error_names(parse(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": -1}, "merges": []}})"), {"b", "-1"});
}

// The same kind, in other forms.
TEST(TokenizerJson, ContradictionsOfEveryKind) {
  const std::string start = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": )";
  expect_error_names(parse(start + R"([["a", "b"], ["ab", "b"]]}})"), {"merges/1", "ab b", "abb"});
  expect_error_names(parse(start + R"(["a b", "a  b"]}})"), {"merges/1"});
  expect_error_names(parse(start + R"(["a b", " b"]}})"), {"merges/1"});
  expect_error_names(parse(start + R"(["a b", ["a"]]}})"), {"merges/1"});
  expect_error_names(parse(start + R"(["a b", 5]}})"), {"merges/1"});
  expect_error_names(parse(start + R"({}}})"), {"merges", "array"});
  expect_error_names(parse(R"({"model": {"vocab": {"a": 0, "b": 4000000000}, "merges": []}})"), {"b", "4000000000"});
  expect_error_names(parse(R"({"model": {"vocab": {"a": 0, "b": 2000000}, "merges": []}})"), {"b", "2000000"});
  expect_error_names(parse(R"({"model": {"vocab": {"a": 0, "b": 1.5}, "merges": []}})"), {"b", "1.5"});
  expect_error_names(parse(R"({"model": {"vocab": {"a": 0, "b": 18446744073709551615}, "merges": []}})"), {"b"});
  expect_error_names(parse(R"({"model": {"vocab": {}, "merges": []}})"), {"vocab", "empty"});
  expect_error_names(parse(with(R"(, "added_tokens": [{"id": 1, "content": "<x>"}])")), {"b", "<x>", "1"});
  for (const char* text : {"", "[]", "null", "{", "{\"model\": 5}", "{}", "\xFF"}) {
    EXPECT_EQ(parse(text).error().code(), ErrorCode::kCorrupt) << text;
  }
}

TEST(TokenizerJson, UnknownComponentsAreNamed) {
  const auto refused = [](const std::string& members, const std::vector<std::string>& names) {
    const auto result = parse(with(members));
    expect_error_names(result, names);
    EXPECT_EQ(result.error().code(), ErrorCode::kUnsupported);
  };
  refused(R"(, "normalizer": {"type": "BertNormalizer"})", {"normalizer", "BertNormalizer"});
  refused(R"(, "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFKD"}]})",
          {"normalizers/1", "NFKD"});
  refused(R"(, "pre_tokenizer": {"type": "Whitespace"})", {"pre_tokenizer", "Whitespace"});
  refused(R"(, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated"})", {"(("});
  refused(R"(, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Odd"})", {"behavior", "Odd"});
  refused(R"(, "post_processor": {"type": "BertProcessing"})", {"post_processor", "BertProcessing"});
  EXPECT_EQ(parse(R"({"model": {"type": "Unigram", "vocab": []}})").error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(
      parse(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "end_of_word_suffix": "</w>"}})").error().code(),
      ErrorCode::kUnsupported);
  std::string deep = "null";
  for (int i = 0; i < 40; ++i) deep = R"({"type": "Sequence", "normalizers": [)" + deep + "]}";
  refused(R"(, "normalizer": )" + deep, {"Sequences"});
}

TEST(TokenizerJson, ConfigurationSaysBosEosAndTemplate) {
  const std::string bos =
      R"(, "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
      {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {}})";
  auto made = parse(with(bos));
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ((*made)->info().bos, 3);
  EXPECT_TRUE((*made)->info().add_bos);
  EXPECT_FALSE((*made)->info().add_eos);
  made = parse(with(bos), R"({"add_bos_token": false, "eos_token": {"content": "ab"}, "bos_token": "<s>", "pad_token": "gone",
      "chat_template": [{"name": "tools", "template": "T"}, {"name": "default", "template": "D"}]})");
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_FALSE((*made)->info().add_bos);
  EXPECT_EQ((*made)->info().eos, 2);
  EXPECT_FALSE((*made)->info().padding.has_value());
  EXPECT_EQ((*made)->info().chat_template, "D");
  expect_error_names(parse(with(""), R"({"bos_token": "<bos>"})"), {"tokenizer_config.json", "bos_token", "<bos>"});
  expect_error_names(parse(with(""), R"({"add_bos_token": "yes"})"), {"add_bos_token", "string"});
  expect_error_names(parse(with(""), "{"), {"tokenizer_config.json"});
}

TEST(TokenizerJson, ReadsAFolder) {
  const TemporaryFolder folder;
  EXPECT_EQ(load_tokenizer_json(folder.path()).error().code(), ErrorCode::kNotFound);
  folder.write("tokenizer.json", with(""));
  auto made = load_tokenizer_json(folder.path());
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ((*made)->encode("abba"), (Ids{2, 1, 0}));
  EXPECT_EQ((*made)->encode("xa"), (Ids{0}));  // no unknown token: a character without a piece is dropped
  folder.write("tokenizer_config.json", R"({"chat_template": "old"})");
  folder.write("chat_template.jinja", "new");
  made = load_tokenizer_json(folder.path());
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ((*made)->info().chat_template, "new");
}

// A pattern that backtracks without end is given up, not waited for; the text stays whole.
TEST(TokenizerJson, PatternsThatExplode) {
  const auto made =
      parse(with(R"(, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"})"));
  ASSERT_TRUE(made) << made.error().message();
  const std::string text = std::string(40, 'a') + "b";
  EXPECT_EQ((*made)->decode((*made)->encode(text)), text);
}

}  // namespace
}  // namespace ropewalk
