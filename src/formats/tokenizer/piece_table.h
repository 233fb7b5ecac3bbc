// The pieces of a vocabulary: strings by id, and ids by string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ropewalk {

// Strings by id, in one block of memory; owns its bytes, so a tokenizer outlives the file that it came from.
class PieceTable {
 public:
  void reserve(size_t pieces, size_t bytes);
  int32_t add(std::string_view piece);  // returns its id; precondition: size() < 2^31 - 1
  int32_t size() const noexcept { return static_cast<int32_t>(ends_.size()); }
  std::string_view operator[](int32_t id) const noexcept {  // precondition: 0 <= id < size()
    const size_t begin = id == 0 ? 0 : ends_[static_cast<size_t>(id) - 1];
    return std::string_view(bytes_).substr(begin, ends_[static_cast<size_t>(id)] - begin);
  }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
};

// Ids by string, for a chosen part of a table. Open addressing; a lookup costs one hash of the string and, nearly always, one
// comparison. Strings longer than the longest piece are turned down unread.
class PieceIndex {
 public:
  // `pieces` must outlive the index and not grow. Of equal pieces the last inserted wins, as where a file is read into a map.
  explicit PieceIndex(const PieceTable* pieces = nullptr, size_t expected = 0);
  void insert(int32_t id);
  int32_t find(std::string_view piece) const noexcept;  // -1: not there

 private:
  static uint64_t hash(std::string_view text) noexcept;
  void grow();

  struct Slot {
    uint32_t tag = 0;  // upper half of the hash: spares most of the comparisons with other pieces
    int32_t id = -1;
  };
  const PieceTable* pieces_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t used_ = 0;
  size_t longest_ = 0;
};

}  // namespace ropewalk
