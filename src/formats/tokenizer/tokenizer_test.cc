// Tokenizers: what a file must hold, special tokens, any bytes, long words.
#include "formats/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/random.h"
#include "formats/tokenizer/testing_tokenizer.h"
#include "formats/tokenizer/unicode.h"
#include "formats/tokenizer/vocabulary.h"

namespace ropewalk {
namespace {

using testing::expect_error_names;
using testing::Ids;
using testing::TokenizerKeys;

constexpr int kControl = 3, kUserDefined = 4, kByte = 6;

std::string byte_character(int byte) {
  std::string out;
  append_utf8(out, byte_to_code()[static_cast<size_t>(byte)]);
  return out;
}

// All 256 bytes (ids 0 to 255), then some merges, then special tokens.
TokenizerKeys byte_level(const std::string& pre = "gpt-2") {
  TokenizerKeys keys;
  keys.model = "gpt2";
  keys.pre = pre;
  for (int b = 0; b < 256; ++b) keys.tokens.push_back(byte_character(b));
  for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{{"t", "h"},
                                                                                    {"th", "e"},
                                                                                    {"a", "a"},
                                                                                    {"aa", "aa"},
                                                                                    {"aaaa", "aaaa"},
                                                                                    {"a", "b"},
                                                                                    {"\u0120", "the"},
                                                                                    {"\u0120", "\u0120"}}) {
    keys.merges.push_back(left + " " + right);
    keys.tokens.push_back(left + right);
  }
  keys.types.assign(keys.tokens.size(), 1);
  const auto add = [&keys](const std::string& text, int type) {
    keys.tokens.push_back(text);
    keys.types.push_back(type);
  };
  add("<|end|>", kControl);
  add("<|end|>!", kControl);
  add("<tag>", kUserDefined);
  keys.ids = {{"bos_token_id", 264}, {"eos_token_id", 264}};
  return keys;
}

// unknown, BOS, EOS, 256 byte pieces, characters, and pieces with falling scores.
TokenizerKeys sentencepiece(bool prefix) {
  TokenizerKeys keys;
  keys.model = "llama";
  const auto add = [&keys](const std::string& text, int type, float score) {
    keys.tokens.push_back(text);
    keys.types.push_back(type);
    keys.scores.push_back(score);
  };
  add("<unk>", 2, 0);
  add("<s>", kControl, 0);
  add("</s>", kControl, 0);
  for (int b = 0; b < 256; ++b) add(fmt::format("<0x{:02X}>", b), kByte, 0);
  float score = 0;
  for (const char* piece : {"th", "the", "\u2581the", "aa", "aaaa", "ab", "\u2581", "t", "h", "e", "a", "b", "<", "s", ">"}) {
    add(piece, 1, score--);
  }
  add("<tag>", kUserDefined, 0);
  keys.flags = {{"add_space_prefix", prefix}};
  return keys;
}

std::unique_ptr<Tokenizer> make(const TokenizerKeys& keys) {
  auto made = keys.make();
  EXPECT_TRUE(made) << made.error().message();
  return made ? *std::move(made) : nullptr;
}

// Case fil-tokenizer, the GGUF variant: three tokens with two scores.
TEST(TokenizerFile, CaseFilTokenizerGguf) {
  const std::string bytes = testing::from_hex(
      "474755460300000000000000000000000300000000000000140000000000000067656e6572616c2e617263686974656374757265080000"
      "0005000000000000006c6c616d611500000000000000746f6b656e697a65722e67676d6c2e746f6b656e73090000000800000003000000"
      "000000000100000000000000610100000000000000620100000000000000631500000000000000746f6b656e697a65722e67676d6c2e73"
      "636f7265730900000006000000020000000000000000000000000080bf");
  const auto file = GgufFile::parse(testing::as_bytes(bytes), "case.gguf");
  if (!file) {  // the reader may refuse it before the tokenizer does
    expect_error_names(file, {"tokenizer.ggml.tokens", "3", "tokenizer.ggml.scores", "2"});
    return;
  }
  expect_error_names(make_tokenizer(**file), {"tokenizer.ggml.tokens", "3", "tokenizer.ggml.scores", "2"});
}

TEST(TokenizerFile, RefusesWhatContradictsItself) {
  TokenizerKeys keys = byte_level();
  keys.types.pop_back();
  expect_error_names(keys.make(), {"tokenizer.ggml.token_type", "267", "266"});
  keys = byte_level();
  keys.types[5] = 7;
  expect_error_names(keys.make(), {"tokenizer.ggml.token_type", "7", "5"});
  keys = byte_level();
  keys.merges.push_back("the the");
  expect_error_names(keys.make(), {"tokenizer.ggml.merges", "thethe", "8"});
  keys = byte_level();
  keys.merges[2] = "a";
  expect_error_names(keys.make(), {"tokenizer.ggml.merges", "2"});
  keys = byte_level();
  keys.ids = {{"eos_token_id", 267}};
  expect_error_names(keys.make(), {"tokenizer.ggml.eos_token_id", "267"});
  keys = sentencepiece(true);
  keys.scores[7] = std::nanf("");
  expect_error_names(keys.make(), {"tokenizer.ggml.scores", "NaN", "7"});
}

TEST(TokenizerFile, SaysWhatIsMissingOrUnknown) {
  TokenizerKeys keys = byte_level("no-such-pattern");
  const auto unknown = keys.make();
  expect_error_names(unknown, {"tokenizer.ggml.pre", "no-such-pattern", "smollm", "gpt-2", "llama-bpe", "qwen2", "default"});
  EXPECT_EQ(unknown.error().code(), ErrorCode::kUnsupported);
  keys = byte_level();
  keys.model = "bert";
  EXPECT_EQ(keys.make().error().code(), ErrorCode::kUnsupported);
  expect_error_names(keys.make(), {"tokenizer.ggml.model", "bert", "llama", "gpt2"});
  keys.model = "";
  EXPECT_EQ(keys.make().error().code(), ErrorCode::kNotFound);
  keys = byte_level();
  keys.merges.clear();
  EXPECT_EQ(keys.make().error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(TokenizerKeys{}.make().error().code(), ErrorCode::kNotFound);
}

TEST(TokenizerFile, InfoIsWhatTheFileSays) {
  TokenizerKeys keys = byte_level("llama-bpe");  // a pattern whose models put a BOS first
  keys.chat_template = "{{ x }}";
  auto tokenizer = make(keys);
  EXPECT_EQ(tokenizer->info().kind, "gpt2");
  EXPECT_EQ(tokenizer->info().pre, "llama-bpe");
  EXPECT_EQ(tokenizer->info().bos, 264);
  EXPECT_TRUE(tokenizer->info().add_bos);
  EXPECT_FALSE(tokenizer->info().unknown.has_value());
  EXPECT_EQ(tokenizer->info().chat_template, "{{ x }}");
  keys.flags = {{"add_bos_token", false}, {"add_eos_token", true}};
  tokenizer = make(keys);
  EXPECT_FALSE(tokenizer->info().add_bos);
  EXPECT_TRUE(tokenizer->info().add_eos);
  EXPECT_EQ(tokenizer->piece(264), "<|end|>");
  EXPECT_EQ(tokenizer->piece(-1), "");
  EXPECT_EQ(tokenizer->piece(tokenizer->size()), "");

  keys = sentencepiece(true);  // no ids: the pieces' types and names say it
  tokenizer = make(keys);
  EXPECT_EQ(tokenizer->info().bos, 1);
  EXPECT_EQ(tokenizer->info().eos, 2);
  EXPECT_EQ(tokenizer->info().unknown, 0);
  EXPECT_TRUE(tokenizer->info().add_bos);
  keys.ids = {{"padding_token_id", 0xFFFFFFFFU}};  // how writers say "none"
  EXPECT_FALSE(make(keys)->info().padding.has_value());
  keys = byte_level();
  keys.pre = "";  // no key: the pattern named default
  EXPECT_EQ(make(keys)->info().pre, "default");
}

TEST(ByteLevel, SpecialTokensOnlyOnRequestAndLongestFirst) {
  const auto tokenizer = make(byte_level());
  EXPECT_EQ(tokenizer->encode("<|end|>!the<|end|>", true), (Ids{265, 257, 264}));
  const Ids plain = tokenizer->encode("<|end|>!");
  EXPECT_EQ(plain.size(), 8U);
  EXPECT_TRUE(std::all_of(plain.begin(), plain.end(), [](int32_t id) { return id < 256; }));
  EXPECT_EQ(tokenizer->encode("the<tag>the"), (Ids{257, 266, 257}));  // user-defined: always
  EXPECT_EQ(tokenizer->decode(Ids{265, -1, 257, 9999, 266}), "<|end|>!the<tag>");
}

TEST(ByteLevel, MergesByRankNotByLength) {
  const auto tokenizer = make(byte_level());
  EXPECT_EQ(tokenizer->encode("aaab"), (Ids{258, 261}));  // "aa" ranks before "ab": aa a b, then a b merge
  EXPECT_EQ(tokenizer->encode("  the"), (Ids{' ', 262}));
}

// Text never becomes a control token, not even one that looks like the character of a byte (found by tokenizer_fuzz).
TEST(ByteLevel, APieceThatLooksLikeAByteIsNotThatByte) {
  for (const char* pre : {"gpt-2", "llama-bpe"}) {  // llama-bpe looks whole words up
    for (const int type : {kControl, kUserDefined}) {
      TokenizerKeys keys = byte_level(pre);
      keys.tokens.push_back(byte_character(0x86));
      keys.types.push_back(type);
      const auto tokenizer = make(keys);
      const std::string text = "\x86";
      const auto ids = tokenizer->encode(text, false);
      EXPECT_EQ(ids, (Ids{0x86})) << pre << type;
      EXPECT_EQ(tokenizer->decode(ids), text) << pre << type;
    }
  }
}

TEST(ByteLevel, LosslessOnAnyBytes) {
  for (const std::string pre : {"smollm", "gpt-2", "llama-bpe", "qwen2", "default", "tekken", "deepseek-v3", "falcon"}) {
    const auto tokenizer = make(byte_level(pre));
    Random random(1);
    for (int round = 0; round < 300; ++round) {
      std::string text;
      const uint64_t length = random.below(80);
      const uint64_t kind = random.below(3);  // bytes, bytes that often form UTF-8, text with breaks
      for (uint64_t i = 0; i < length; ++i) {
        if (kind == 0) {
          text += static_cast<char>(random.below(256));
        } else if (kind == 1) {
          append_utf8(text, static_cast<uint32_t>(random.below(0x11000)));  // surrogates too, which are not valid
          if (random.below(4) == 0) text.pop_back();
        } else {
          text += " \n\tathe1<'\xC3\xA9\x80"[random.below(14)];
        }
      }
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << pre;
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, true)), text) << pre;
    }
  }
}

TEST(SentencePiece, SpacesAndFallback) {
  const auto tokenizer = make(sentencepiece(false));
  const auto byte = [](unsigned char b) { return int32_t{3 + b}; };
  EXPECT_EQ(tokenizer->encode("the the"), (Ids{260, 261}));
  EXPECT_EQ(tokenizer->encode("z"), (Ids{byte('z')}));
  EXPECT_EQ(tokenizer->encode("\xC3\xA9\xFF"), (Ids{byte(0xC3), byte(0xA9), byte(0xFF)}));
  EXPECT_EQ(tokenizer->encode("a<tag>b"), (Ids{269, 274, 270}));
  EXPECT_EQ(tokenizer->encode("<s>", true), (Ids{1}));
  EXPECT_EQ(tokenizer->encode("<s>"), (Ids{271, 272, 273}));
  const auto prefixed = make(sentencepiece(true));
  EXPECT_EQ(prefixed->encode("the"), (Ids{261}));
  EXPECT_EQ(prefixed->encode("<s>the</s>the", true), (Ids{1, 261, 2, 261}));  // each stretch gets its space
  EXPECT_EQ(prefixed->encode(""), Ids{});
  EXPECT_EQ(prefixed->decode(prefixed->encode("the")), " the");
}

TEST(SentencePiece, LosslessOnAnyBytes) {
  const auto tokenizer = make(sentencepiece(false));
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (uint64_t i = random.below(60); i > 0; --i) {
      text += random.below(2) == 0 ? " atheb<>"[random.below(8)] : static_cast<char>(random.below(256));
    }
    if (text.find("\xE2\x96\x81") != std::string::npos) continue;
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

// The definition, taken literally: look through all pairs, join the best, again.
Ids merge_naively(const std::vector<std::string>& symbols, const std::map<std::string, std::pair<double, int32_t>>& ranks) {
  std::vector<std::string> list = symbols;
  while (true) {
    size_t best = list.size();
    double rank = 1e30;
    for (size_t i = 0; i + 1 < list.size(); ++i) {
      const auto found = ranks.find(list[i] + list[i + 1]);
      if (found != ranks.end() && found->second.first < rank) {
        rank = found->second.first;
        best = i;
      }
    }
    if (best == list.size()) break;
    list[best] += list[best + 1];
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids ids;
  for (const std::string& symbol : list) ids.push_back(ranks.at(symbol).second);
  return ids;
}

// Random vocabularies over two letters, with many equal scores, and words from one symbol to several hundred: both ways of
// finding the best pair, and every rule about order.
TEST(SentencePiece, RandomVocabulariesAgreeWithTheDefinition) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    TokenizerKeys keys;
    keys.model = "llama";
    keys.flags = {{"add_space_prefix", false}};
    std::map<std::string, std::pair<double, int32_t>> ranks;
    const auto add = [&](const std::string& piece, float score) {
      if (ranks.contains(piece)) return;
      ranks[piece] = {-static_cast<double>(score), static_cast<int32_t>(keys.tokens.size())};
      keys.tokens.push_back(piece);
      keys.scores.push_back(score);
      keys.types.push_back(1);
    };
    add("a", -100);
    add("b", -100);
    for (int i = 0; i < 30; ++i) {
      std::string piece;
      for (uint64_t n = 2 + random.below(6); n > 0; --n) piece += "ab"[random.below(2)];
      add(piece, -static_cast<float>(random.below(8)));
    }
    const auto tokenizer = make(keys);
    for (const uint64_t length : {uint64_t{1}, uint64_t{7}, uint64_t{24}, uint64_t{25}, 100 + random.below(200)}) {
      std::string word;
      std::vector<std::string> symbols;
      for (uint64_t i = 0; i < length; ++i) {
        word += "ab"[random.below(2)];
        symbols.emplace_back(1, word.back());
      }
      ASSERT_EQ(tokenizer->encode(word), merge_naively(symbols, ranks)) << word;
    }
  }
}

std::vector<std::string> long_words(size_t n) {
  std::vector<std::string> words = {std::string(n, 'a'), std::string(n, ' '),    std::string(n, '\n'),      std::string(n, '1'),
                                    std::string(n, '!'), std::string(n, '\xFF'), std::string(n, ' ') + "x", {}};
  while (words.back().size() < n) words.back() += "the\xC3\xA9\xE4\xB8\xAD";
  return words;
}

// A quadratic loop needs minutes for a word of a megabyte, and the time limit of the test ends it. The bound of a second is
// checked with the models' own vocabularies (tests/models), where nothing slows the program down.
TEST(LongText, OneWordOfAMegabyte) {
  const size_t n = size_t{1} << 20;
  const auto tokenizer = make(byte_level("smollm"));
  const auto pieces = make(sentencepiece(false));
  for (const std::string& word : long_words(n)) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(word)), word);
    EXPECT_EQ(pieces->decode(pieces->encode(word)), word);
  }
  EXPECT_EQ(pieces->encode(std::string(n, 'a')).size(), n / 4);
}

// A run of letters is one word for every pattern, so the largest piece, eight letters, makes up all of it: no limit of the
// regular expression engine cuts it.
TEST(LongText, NoPatternGivesUp) {
  const size_t n = size_t{1} << 18;
  for (const std::string pre : {"gpt-2", "llama-bpe", "qwen2", "default", "gpt-4o", "tekken", "deepseek-v3"}) {
    const auto tokenizer = make(byte_level(pre));
    EXPECT_EQ(tokenizer->encode(std::string(n, 'a')).size(), n / 8) << pre;
    for (const std::string& word : long_words(n / 8)) EXPECT_EQ(tokenizer->decode(tokenizer->encode(word)), word) << pre;
  }
}

// Four times the text, about four times the work: counted in allocations of ids, not in time. Special tokens that start at
// every byte, and invalid bytes between all others, must not bring a factor of the length in.
TEST(LongText, ManyFragments) {
  std::string specials, broken;
  for (int i = 0; i < 100000; ++i) {
    specials += "<|end|>a";
    broken += "a\xFF";
  }
  const auto tokenizer = make(byte_level());
  EXPECT_EQ(tokenizer->encode(specials, true).size(), 200000U);
  EXPECT_EQ(tokenizer->encode(broken).size(), 200000U);
  const auto pieces = make(sentencepiece(false));
  EXPECT_EQ(pieces->encode(specials, true).size(), pieces->encode("<|end|>a", true).size() * 100000);
}

TEST(Utf8Stream, HoldsBackHalfCharacters) {
  const std::string text = "a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x91\x8D!";
  for (size_t chunk = 1; chunk <= text.size(); ++chunk) {
    Utf8Stream stream;
    std::string out;
    for (size_t at = 0; at < text.size(); at += chunk) {
      const std::string ready = stream.push(text.substr(at, chunk));
      EXPECT_EQ(utf8_run(ready, 0, true), ready.size());
      out += ready;
    }
    EXPECT_EQ(out + stream.finish(), text);
  }
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xF0\x9F"), "");
  EXPECT_EQ(stream.push("x"), "\xF0\x9Fx");        // it can no longer become a character
  EXPECT_EQ(stream.push("\xED\xA0"), "\xED\xA0");  // a surrogate never was one
  EXPECT_EQ(stream.push("\xE4"), "");
  EXPECT_EQ(stream.finish(), "\xE4");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8, WellFormedAsInTable3_7) {
  const auto bytes = [](std::string_view text) { return utf8_at(text, 0).valid() ? utf8_at(text, 0).bytes : 0; };
  EXPECT_EQ(bytes("\xC0\x80"), 0U);
  EXPECT_EQ(bytes("\xC2\x80"), 2U);
  EXPECT_EQ(bytes("\xE0\x9F\x80"), 0U);
  EXPECT_EQ(bytes("\xE0\xA0\x80"), 3U);
  EXPECT_EQ(bytes("\xED\xA0\x80"), 0U);
  EXPECT_EQ(bytes("\xEF\xBF\xBF"), 3U);
  EXPECT_EQ(bytes("\xF0\x8F\xBF\xBF"), 0U);
  EXPECT_EQ(bytes("\xF4\x8F\xBF\xBF"), 4U);
  EXPECT_EQ(bytes("\xF4\x90\x80\x80"), 0U);
  EXPECT_EQ(bytes("\xF0\x9F\x91"), 0U);
  for (uint32_t code = 0; code <= 0x10FFFF; code += 7) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    append_utf8(text, code);
    ASSERT_EQ(utf8_at(text, 0).code, code);
    ASSERT_EQ(utf8_at(text, 0).bytes, text.size());
  }
}

}  // namespace
}  // namespace ropewalk
