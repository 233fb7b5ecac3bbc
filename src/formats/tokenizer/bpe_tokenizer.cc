#include "formats/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <optional>

#include "base/fail.h"
#include "formats/tokenizer/splitting_patterns.h"
#include "formats/tokenizer/unicode.h"
#include "formats/tokenizer/word_cache.h"

namespace ropewalk {
namespace {

class BpeTokenizer final : public VocabularyTokenizer {
 public:
  explicit BpeTokenizer(BpeParts parts)
      : VocabularyTokenizer(std::move(parts.vocabulary)),
        normalizer_(std::move(parts.normalizer)),
        splitter_(std::move(parts.splitter)),
        added_(std::move(parts.added)),
        space_symbol_(std::move(parts.space_symbol)),
        model_(vocabulary_, parts.model) {
    Regex::Scratch scratch;
    for (AddedToken& token : added_) {
      if (token.normalized) token.text = normalize(normalizer_, token.text, scratch);
    }
    for (const bool normalized : {false, true}) {
      for (const bool special : {false, true}) matchers_[normalized][special] = make_matcher(normalized, special);
    }
  }

  std::vector<int32_t> encode(std::string_view text, bool parse_special) const override {
    Work work{{}, {}, WordCache(0), {}};
    const auto fragment = [&](std::string_view part) {
      encode_fragment(part, part.data() == text.data(), parse_special, work);
    };
    for_each_fragment(matchers_[false][parse_special], text, work.ids, fragment);
    return std::move(work.ids);
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string out;
    for (const int32_t id : ids) {
      if (known(id)) append_decoded(id, out);
    }
    return out;
  }

 private:
  struct Work {
    Words words;
    MergeLoop loop;
    WordCache cache;
    std::vector<int32_t> ids;
  };

  SpecialMatcher make_matcher(bool normalized, bool with_special) const {
    std::vector<SpecialMatcher::Entry> entries;
    for (size_t i = 0; i < added_.size(); ++i) {
      const AddedToken& token = added_[i];
      if (token.normalized == normalized && (with_special || !token.special)) {
        entries.push_back({token.text, static_cast<int32_t>(i)});
      }
    }
    return SpecialMatcher(std::move(entries));
  }

  static bool is_word_at(std::string_view text, size_t at) {  // roughly \w: enough to say whether a token stands inside a word
    const uint32_t c = utf8_at(text, at).code;
    return c >= 0x80 ? !is_white_space(c)
                     : (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  }
  static size_t previous_char(std::string_view text, size_t at) {  // start of the character that ends at `at` > 0
    for (size_t back = std::min<size_t>(4, at); back >= 2; --back) {
      if (utf8_at(text, at - back).bytes == back) return at - back;
    }
    return at - 1;
  }

  // Calls fragment(part) for what lies between added tokens, and appends the tokens' ids.
  template <class Fragment>
  void for_each_fragment(const SpecialMatcher& matcher, std::string_view text, std::vector<int32_t>& ids,
                         Fragment&& fragment) const {
    size_t done = 0;
    size_t from = 0;
    while (const SpecialMatcher::Match found = matcher.find(text, from)) {
      const AddedToken& token = added_[static_cast<size_t>(found.id)];
      size_t begin = found.begin;
      size_t end = found.end;
      from = end;
      if (token.single_word &&
          ((begin > 0 && is_word_at(text, previous_char(text, begin))) || (end < text.size() && is_word_at(text, end)))) {
        continue;
      }
      if (token.strip_left) {
        while (begin > done && is_white_space(utf8_at(text, previous_char(text, begin)).code))
          begin = previous_char(text, begin);
      }
      if (token.strip_right) {
        while (end < text.size() && is_white_space(utf8_at(text, end).code)) end += utf8_at(text, end).bytes;
      }
      if (begin > done) fragment(text.substr(done, begin - done));
      ids.push_back(token.id);
      done = from = end;
    }
    if (done < text.size()) fragment(text.substr(done));
  }

  // Bytes that are not valid UTF-8 are split off, a run of them being a word of its own: no regular expression is defined on
  // them.
  void encode_fragment(std::string_view text, bool at_start, bool parse_special, Work& work) const {
    for (size_t at = 0; at < text.size();) {
      const size_t valid = utf8_run(text, at, true);
      if (valid > 0) encode_valid(text.substr(at, valid), at_start && at == 0, parse_special, work);
      at += valid;
      const size_t invalid = utf8_run(text, at, false);
      if (invalid > 0) model_.encode(text.substr(at, invalid), work.loop, work.ids);
      at += invalid;
    }
  }

  void encode_valid(std::string_view text, bool at_start, bool parse_special, Work& work) const {
    std::string normalized;
    if (!normalizer_.empty()) {
      normalized = normalize(normalizer_, text, work.words.scratch);
      text = normalized;
    }
    work.words.made.clear();
    work.cache = WordCache(text.size());  // the old one's words are gone
    for_each_fragment(matchers_[true][parse_special], text, work.ids, [&](std::string_view part) {
      split_words(splitter_, part, at_start && part.data() == text.data(), work.words);
      for (const std::string_view word : work.words.list) encode_word(word, work);
    });
  }

  void encode_word(std::string_view word, Work& work) const {
    if (work.cache.append(word, work.ids)) return;
    const size_t first = work.ids.size();
    model_.encode(word, work.loop, work.ids);
    work.cache.remember(word, work.ids.data() + first, work.ids.size() - first);
  }

  void append_decoded(int32_t id, std::string& out) const {
    const std::string_view piece = vocabulary_.pieces[id];
    const BpeOptions& options = model_.options();
    const PieceType t = type(id);
    if (t == PieceType::kControl || t == PieceType::kUserDefined || t == PieceType::kUnknown) {
      out += piece;
      return;
    }
    if (const int byte = t == PieceType::kByte || options.byte_fallback ? byte_of_piece(piece) : -1; byte >= 0) {
      out += static_cast<char>(static_cast<uint8_t>(byte));
    } else if (options.byte_level) {
      for (size_t at = 0; at < piece.size();) {
        const Utf8Char c = utf8_at(piece, at);
        const int mapped = code_to_byte(c.code);
        if (mapped >= 0) {
          out += static_cast<char>(static_cast<uint8_t>(mapped));
        } else {
          out += piece.substr(at, c.bytes);
        }
        at += c.bytes;
      }
    } else {
      for (size_t at = 0; at < piece.size();) {
        const size_t symbol = space_symbol_.empty() ? std::string_view::npos : piece.find(space_symbol_, at);
        out += piece.substr(at, symbol - at);
        if (symbol == std::string_view::npos) break;
        out += ' ';
        at = symbol + space_symbol_.size();
      }
    }
  }

  std::vector<NormalizeStep> normalizer_;
  std::vector<SplitStep> splitter_;
  std::vector<AddedToken> added_;
  std::string space_symbol_;
  BpeModel model_;
  SpecialMatcher matchers_[2][2];  // [normalized][special ones too]
};

}  // namespace

std::unique_ptr<Tokenizer> make_bpe(BpeParts parts) { return std::make_unique<BpeTokenizer>(std::move(parts)); }

Result<std::unique_ptr<Tokenizer>> make_byte_level_bpe(Vocabulary vocabulary) {
  BpeParts parts;
  const SplittingPattern* pattern = find_splitting_pattern(vocabulary.info.pre);
  if (pattern == nullptr) {
    return fail(ErrorCode::kUnsupported, "[tokenizer] pre: expected one of {}, but got \"{}\"", splitting_pattern_names(),
                vocabulary.info.pre);
  }
  for (const std::string_view stage : pattern->stages) {
    ROPEWALK_TRY(Regex regex, Regex::compile(stage));
    parts.splitter.emplace_back(Split{std::move(regex), SplitBehaviour::kIsolated, false});
  }
  for (int32_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const PieceType t = vocabulary.types[static_cast<size_t>(id)];
    if (t != PieceType::kControl && t != PieceType::kUserDefined && t != PieceType::kUnknown) continue;
    AddedToken token;
    token.id = id;
    token.text = std::string(vocabulary.pieces[id]);
    token.special = t != PieceType::kUserDefined;
    parts.added.push_back(std::move(token));
  }
  parts.model.byte_level = true;
  parts.model.ignore_merges = vocabulary.ignore_merges;
  parts.vocabulary = std::move(vocabulary);
  return make_bpe(std::move(parts));
}

}  // namespace ropewalk
