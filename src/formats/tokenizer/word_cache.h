// Words that came up before in the same text, and the ids they became: natural text repeats itself.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace ropewalk {

// Direct-mapped and lossy. Holds views of the text, so it lives no longer than the call that made it.
class WordCache {
 public:
  // A short text gets no cache: clearing the table would cost more than it saves.
  explicit WordCache(size_t text_bytes) : slots_(text_bytes < 4096 ? 0 : kSlots) {}

  // Appends the ids of `word` to `out` and returns true if they are known.
  bool append(std::string_view word, std::vector<int32_t>& out) const {
    if (slots_.empty() || word.size() > kLongest) return false;
    const Slot& slot = slots_[slot_of(word)];
    if (slot.word != word) return false;
    for (uint32_t i = 0; i < slot.count; ++i) out.push_back(slot.ids[i]);
    return true;
  }
  void remember(std::string_view word, const int32_t* ids, size_t count) {
    if (slots_.empty() || word.size() > kLongest || count > kMostIds) return;
    Slot& slot = slots_[slot_of(word)];
    slot.word = word;
    slot.count = static_cast<uint32_t>(count);
    std::copy(ids, ids + count, slot.ids.begin());
  }

 private:
  static constexpr size_t kLongest = 32;
  static constexpr size_t kMostIds = 4;
  static constexpr size_t kSlots = 4096;

  struct Slot {
    std::string_view word = "";
    uint32_t count = 0;
    std::array<int32_t, kMostIds> ids{};
  };

  static size_t slot_of(std::string_view word) {
    uint64_t state = word.size();
    for (size_t at = 0; at < word.size(); at += 8) {
      uint64_t part = 0;
      std::memcpy(&part, word.data() + at, word.size() - at < 8 ? word.size() - at : 8);
      state = (state ^ part) * 0x9E3779B97F4A7C15U;
      state ^= state >> 29;
    }
    return (state * 0xD6E8FEB86659FD93U) >> 52;
  }

  std::vector<Slot> slots_;
};

}  // namespace ropewalk
