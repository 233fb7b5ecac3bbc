// Byte-pair encoding of one word by a list of merges.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/tokenizer/merge.h"
#include "formats/tokenizer/piece_table.h"
#include "formats/tokenizer/vocabulary.h"

namespace ropewalk {

// Look-up of the merge of two pieces.
class MergeTable {
 public:
  explicit MergeTable(const std::vector<MergeRule>& rules);  // of equal pairs the first counts
  Merge find(int32_t left, int32_t right) const noexcept;

 private:
  struct Slot {
    uint64_t pair = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  static uint64_t key(int32_t left, int32_t right) noexcept {
    return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t pair) const noexcept { return (pair * 0x9E3779B97F4A7C15U) >> shift_; }
  std::vector<Slot> slots_;
  int shift_ = 60;
};

struct BpeOptions {
  bool byte_level = false;     // a word is bytes, each written as one character (byte_to_code)
  bool byte_fallback = false;  // a character without a piece becomes its bytes' pieces <0xXX>
  bool ignore_merges = false;
  bool fuse_unknown = false;       // a run of unknown characters becomes one unknown piece
  std::optional<int32_t> unknown;  // absent: characters without a piece are dropped, as the models' own tokenizers do
};

class BpeModel {
 public:
  // `vocabulary` must outlive the model.
  BpeModel(const Vocabulary& vocabulary, BpeOptions options);

  // Appends the ids of a word. O(n log n). `loop` is scratch of the calling thread.
  void encode(std::string_view word, MergeLoop& loop, std::vector<int32_t>& ids) const;
  int32_t find(std::string_view piece) const noexcept { return index_.find(piece); }
  const BpeOptions& options() const noexcept { return options_; }

 private:
  bool is_text(int32_t id) const;  // neither control nor user-defined
  bool encode_whole(std::string_view word, std::vector<int32_t>& ids) const;
  void fill_symbols(std::string_view word, std::vector<MergeSymbol>& symbols) const;
  void merge(MergeLoop& loop, std::vector<int32_t>& ids) const;

  const Vocabulary& vocabulary_;
  BpeOptions options_;
  PieceIndex index_;
  MergeTable merges_;
  std::array<int32_t, 256> bytes_{};           // the piece of each byte: its character, else <0xXX>, else -1
  std::array<int32_t, 256> fallback_bytes_{};  // <0xXX>, else -1
};

}  // namespace ropewalk
