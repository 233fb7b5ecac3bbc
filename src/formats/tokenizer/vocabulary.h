// What a tokenizer is made of, read from a file and checked, before an algorithm is chosen.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/piece_table.h"
#include "formats/tokenizer/tokenizer.h"

namespace ropewalk {

enum class PieceType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// The best rank first: rules[r] joins `left` and `right` to `result`.
struct MergeRule {
  int32_t left = -1;
  int32_t right = -1;
  int32_t result = -1;
};

struct Vocabulary {
  TokenizerInfo info;
  PieceTable pieces;
  std::vector<PieceType> types;   // one a piece
  std::vector<float> scores;      // SentencePiece: one a piece
  std::vector<MergeRule> merges;  // byte-pair encoding
  bool add_space_prefix = false;  // SentencePiece: a text starts with a space
  bool ignore_merges = false;     // byte-level BPE: a word that is a piece is that piece, whatever the merges say
};

// Reads and checks tokenizer.ggml.*. Errors as make_tokenizer.
Result<Vocabulary> read_vocabulary(const GgufFile& file);

// The piece "a b" of a merge list as two strings; false when it is no pair. The first piece may itself start with a space.
bool split_merge(std::string_view text, std::string_view& left, std::string_view& right);

// The byte that a SentencePiece byte piece "<0xXX>" stands for, or -1.
int byte_of_piece(std::string_view piece);

// Byte-level BPE writes bytes as printable characters (Radford et al. 2019): code point of each byte, and back.
const std::array<uint32_t, 256>& byte_to_code();
int code_to_byte(uint32_t code);  // -1: not such a character

// Tokenizers over a vocabulary (SentencePiece-style; byte-level BPE with the splitting pattern info.pre).
std::unique_ptr<Tokenizer> make_sentencepiece(Vocabulary vocabulary);
Result<std::unique_ptr<Tokenizer>> make_byte_level_bpe(Vocabulary vocabulary);

// What all tokenizers share.
class VocabularyTokenizer : public Tokenizer {
 public:
  explicit VocabularyTokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  std::string piece(int32_t id) const override { return known(id) ? std::string(vocabulary_.pieces[id]) : std::string(); }
  int32_t size() const override { return vocabulary_.pieces.size(); }
  const TokenizerInfo& info() const override { return vocabulary_.info; }

 protected:
  bool known(int32_t id) const { return id >= 0 && id < vocabulary_.pieces.size(); }
  PieceType type(int32_t id) const { return vocabulary_.types[static_cast<size_t>(id)]; }

  Vocabulary vocabulary_;
};

}  // namespace ropewalk
