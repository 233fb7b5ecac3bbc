// SentencePiece-style byte-pair encoding (Kudo and Richardson 2018, arXiv:1808.06226), as GGUF files of kind "llama" carry it:
// pieces with scores and types, and no list of merges. Any two neighbours whose concatenation is a piece may merge; the highest
// score goes first, the leftmost of equal ones before the others. A symbol that is no piece at the end becomes byte pieces, or
// the unknown piece (one for a run of them).
#include <algorithm>
#include <bitset>
#include <memory>
#include <unordered_map>

#include "formats/tokenizer/merge.h"
#include "formats/tokenizer/special_matcher.h"
#include "formats/tokenizer/unicode.h"
#include "formats/tokenizer/vocabulary.h"
#include "formats/tokenizer/word_cache.h"

namespace ropewalk {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581 stands for a space

void append_escaped(std::string& out, std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t space = std::min(text.find(' ', at), text.size());
    out += text.substr(at, space - at);
    if (space < text.size()) out += kSpaceSymbol;
    at = space + 1;
  }
}

// Which characters stand side by side in some piece. Where two do not, no merge ever crosses, and the text may be cut: words
// become independent and small. A false "yes" only costs time, so one hash function over a bitmap is enough.
class Adjacency {
 public:
  void add(uint32_t left, uint32_t right) { bits_->set(slot(left, right)); }
  bool may_join(uint32_t left, uint32_t right) const { return bits_->test(slot(left, right)); }

 private:
  static constexpr size_t kLogSize = 20;
  static size_t slot(uint32_t left, uint32_t right) {
    return (((uint64_t{left} << 32) | right) * 0x9E3779B97F4A7C15U) >> (64 - kLogSize);
  }
  std::unique_ptr<std::bitset<size_t{1} << kLogSize>> bits_ = std::make_unique<std::bitset<size_t{1} << kLogSize>>();
};

class SentencePiece final : public VocabularyTokenizer {
 public:
  explicit SentencePiece(Vocabulary vocabulary) : VocabularyTokenizer(std::move(vocabulary)) {
    bytes_.fill(-1);
    rank_scores();
    const PieceTable& pieces = vocabulary_.pieces;
    index_ = PieceIndex(&pieces, static_cast<size_t>(pieces.size()));
    escaped_.reserve(static_cast<size_t>(size()), 0);
    for (int32_t id = 0; id < size(); ++id) {
      const PieceType t = type(id);
      escape_piece(id, t == PieceType::kUserDefined);
      if (t == PieceType::kByte) {
        const int byte = byte_of_piece(pieces[id]);
        if (byte >= 0) bytes_[static_cast<size_t>(byte)] = id;
      } else if (t == PieceType::kNormal || t == PieceType::kUserDefined || t == PieceType::kUnused) {
        index_piece(id);
        has_unused_ = has_unused_ || t == PieceType::kUnused;
      }
    }
    make_matchers();
  }

  std::vector<int32_t> encode(std::string_view text, bool parse_special) const override {
    std::vector<int32_t> ids;
    size_t at = 0;
    while (parse_special && at < text.size()) {
      const SpecialMatcher::Match found = special_.find(text, at);
      if (!found) break;
      encode_fragment(text.substr(at, found.begin - at), ids);
      ids.push_back(found.id);
      at = found.end;
    }
    encode_fragment(text.substr(at), ids);
    return ids;
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string out;
    for (const int32_t id : ids) {
      if (!known(id)) continue;
      const std::string_view piece = vocabulary_.pieces[id];
      const int byte = type(id) == PieceType::kByte ? byte_of_piece(piece) : -1;
      if (byte >= 0) {
        out += static_cast<char>(static_cast<uint8_t>(byte));
      } else {
        append_unescaped(out, piece);
      }
    }
    return out;
  }

 private:
  // State of one fragment of text.
  struct Work {
    explicit Work(std::string_view escaped) : text(escaped), cache(escaped.size()) {}
    std::string_view text;
    MergeLoop loop;
    WordCache cache;
    std::unordered_map<int32_t, uint32_t> unused;  // how an unused piece was made: the length of its left part
    bool after_unknown = false;
  };

  static void append_unescaped(std::string& out, std::string_view piece) {
    size_t at = 0;
    while (true) {
      const size_t symbol = piece.find(kSpaceSymbol, at);
      out += piece.substr(at, symbol - at);
      if (symbol == std::string_view::npos) return;
      out += ' ';
      at = symbol + kSpaceSymbol.size();
    }
  }

  // Merges are ordered by rank, equal scores having equal ranks.
  void rank_scores() {
    std::vector<float> sorted = vocabulary_.scores;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    ranks_.reserve(vocabulary_.scores.size());
    for (const float score : vocabulary_.scores) {
      ranks_.push_back(
          static_cast<uint32_t>(std::lower_bound(sorted.begin(), sorted.end(), score, std::greater<>()) - sorted.begin()));
    }
  }

  // Some writers store user-defined pieces with plain spaces, some with U+2581; matching is done on escaped text.
  void escape_piece(int32_t id, bool user_defined) {
    std::string text;
    if (user_defined) append_escaped(text, vocabulary_.pieces[id]);
    escaped_.add(text);
  }

  void index_piece(int32_t id) {
    index_.insert(id);
    const std::string_view piece = vocabulary_.pieces[id];
    size_t at = 0;
    uint32_t left = 0;
    while (at < piece.size()) {
      const Utf8Char c = utf8_at(piece, at);
      if (at > 0) adjacency_.add(left, c.code);
      left = c.code;
      at += c.bytes;
    }
  }

  void make_matchers() {
    std::vector<SpecialMatcher::Entry> special, user;
    for (int32_t id = 0; id < size(); ++id) {
      const PieceType t = type(id);
      if (t == PieceType::kControl || t == PieceType::kUnknown) special.push_back({vocabulary_.pieces[id], id});
      // A piece that is no UTF-8 could match in the middle of a character, U+2581 among them.
      if (t == PieceType::kUserDefined && utf8_run(escaped_[id], 0, true) == escaped_[id].size())
        user.push_back({escaped_[id], id});
    }
    special_ = SpecialMatcher(std::move(special));
    user_defined_ = SpecialMatcher(std::move(user));
  }

  // The text between two special tokens: each such stretch gets the leading space, as when turns of a chat are encoded one by
  // one.
  void encode_fragment(std::string_view raw, std::vector<int32_t>& ids) const {
    if (raw.empty()) return;
    std::string text;
    text.reserve(raw.size() + raw.size() / 2 + kSpaceSymbol.size());
    if (vocabulary_.add_space_prefix) text += kSpaceSymbol;
    append_escaped(text, raw);
    Work work(text);
    size_t at = 0;
    while (at < text.size()) {
      const SpecialMatcher::Match found = user_defined_.find(text, at);
      const size_t end = found ? found.begin : text.size();
      encode_span(work, at, end, ids);
      if (!found) break;
      ids.push_back(found.id);
      work.after_unknown = false;
      at = found.end;
    }
  }

  // Cuts [begin, end) where no merge can cross.
  void encode_span(Work& work, size_t begin, size_t end, std::vector<int32_t>& ids) const {
    size_t word = begin;
    size_t at = begin;
    uint32_t left = 0;
    const std::string_view text = work.text.substr(0, end);
    while (at < end) {
      const Utf8Char c = utf8_at(text, at);
      if (at > word && !adjacency_.may_join(left, c.code)) {
        encode_word(work, text.substr(word, at - word), ids);
        word = at;
      }
      left = c.code;
      at += c.bytes;
    }
    if (word < end) encode_word(work, text.substr(word, end - word), ids);
  }

  void encode_word(Work& work, std::string_view word, std::vector<int32_t>& ids) const {
    const size_t first = ids.size();
    const bool after_unknown = work.after_unknown;
    if (work.cache.append(word, ids)) {
      work.after_unknown = false;
      return;
    }
    // A symbol's offsets and the heap's entries are 32 bits wide; a word of a gigabyte is cut.
    constexpr size_t kLongest = size_t{1} << 30;
    bool unknown = false;
    for (size_t at = 0; at < word.size(); at += kLongest) unknown |= merge_word(work, word.substr(at, kLongest), ids);
    // What an unknown symbol becomes depends on what stands before it, so words with one are not remembered.
    if (!unknown && !after_unknown) work.cache.remember(word, ids.data() + first, ids.size() - first);
  }

  bool merge_word(Work& work, std::string_view word, std::vector<int32_t>& ids) const {
    std::vector<MergeSymbol>& symbols = work.loop.symbols;
    symbols.clear();
    for (size_t at = 0; at < word.size();) {
      const uint32_t n = utf8_at(word, at).bytes;
      MergeSymbol s;
      s.begin = static_cast<uint32_t>(at);
      s.end = static_cast<uint32_t>(at + n);
      symbols.push_back(s);
      at += n;
    }
    work.loop.run([&](const MergeSymbol& left, const MergeSymbol& right) -> Merge {
      const int32_t id = index_.find(word.substr(left.begin, right.end - left.begin));
      if (id < 0) return {};
      if (has_unused_ && type(id) == PieceType::kUnused) work.unused[id] = left.end - left.begin;
      return {ranks_[static_cast<size_t>(id)], id};
    });
    bool unknown = false;
    for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
      const MergeSymbol& s = symbols[static_cast<size_t>(i)];
      unknown |= emit(work, word.substr(s.begin, s.end - s.begin), ids);
    }
    return unknown;
  }

  // An unused piece takes part in merging but may not come out; it falls back into the parts it was made of.
  bool emit(Work& work, std::string_view symbol, std::vector<int32_t>& ids) const {
    bool unknown = false;
    std::vector<std::string_view> stack{symbol};
    while (!stack.empty()) {
      const std::string_view text = stack.back();
      stack.pop_back();
      const int32_t id = index_.find(text);
      if (id >= 0 && type(id) == PieceType::kUnused) {
        if (const auto made = work.unused.find(id); made != work.unused.end()) {
          stack.push_back(text.substr(made->second));
          stack.push_back(text.substr(0, made->second));
          continue;
        }
      }
      if (id >= 0) {
        ids.push_back(id);
        work.after_unknown = false;
      } else {
        emit_unknown(work, text, ids);
        unknown = true;
      }
    }
    return unknown;
  }

  void emit_unknown(Work& work, std::string_view symbol, std::vector<int32_t>& ids) const {
    const bool all_bytes =
        std::all_of(symbol.begin(), symbol.end(), [this](char c) { return bytes_[static_cast<uint8_t>(c)] >= 0; });
    if (all_bytes) {
      for (const char c : symbol) ids.push_back(bytes_[static_cast<uint8_t>(c)]);
      work.after_unknown = false;
      return;
    }
    if (!work.after_unknown && vocabulary_.info.unknown) ids.push_back(*vocabulary_.info.unknown);
    work.after_unknown = true;
  }

  PieceIndex index_;             // what merging may make
  std::vector<uint32_t> ranks_;  // of each piece
  Adjacency adjacency_;
  std::array<int32_t, 256> bytes_{};  // byte pieces
  PieceTable escaped_;                // user-defined pieces, escaped; empty for the others
  SpecialMatcher special_, user_defined_;
  bool has_unused_ = false;
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece(Vocabulary vocabulary) {
  return std::make_unique<SentencePiece>(std::move(vocabulary));
}

}  // namespace ropewalk
