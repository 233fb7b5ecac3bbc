// Finds pieces that are recognised in the raw text, before any splitting: special tokens, user-defined pieces.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/tokenizer/piece_table.h"

namespace ropewalk {

class SpecialMatcher {
 public:
  struct Entry {
    std::string_view text;  // not owned; must outlive the matcher
    int32_t id = -1;
  };
  struct Match {
    size_t begin = 0;
    size_t end = 0;  // begin == end: none
    int32_t id = -1;
    explicit operator bool() const noexcept { return end > begin; }
  };

  SpecialMatcher() = default;
  explicit SpecialMatcher(std::vector<Entry> entries);  // empty texts are left out; of equal ones the last counts

  // The first place at or after `from` where an entry stands, and the longest one there. Cost: one table look-up a byte, and
  // O(length * log entries) where a byte starts an entry.
  Match find(std::string_view text, size_t from) const noexcept;
  bool empty() const noexcept { return entries_.empty(); }

 private:
  std::vector<Entry> entries_;         // sorted by text
  std::array<uint32_t, 257> first_{};  // entries that start with byte b: [first_[b], first_[b + 1])
};

}  // namespace ropewalk
