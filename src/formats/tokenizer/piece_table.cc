#include "formats/tokenizer/piece_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ropewalk {

void PieceTable::reserve(size_t pieces, size_t bytes) {
  ends_.reserve(pieces);
  bytes_.reserve(bytes);
}

int32_t PieceTable::add(std::string_view piece) {
  bytes_ += piece;
  ends_.push_back(bytes_.size());
  return size() - 1;
}

PieceIndex::PieceIndex(const PieceTable* pieces, size_t expected)
    : pieces_(pieces), slots_(std::bit_ceil(std::max<size_t>(16, 2 * expected + 1))) {}

uint64_t PieceIndex::hash(std::string_view text) noexcept {
  uint64_t state = text.size() * 0x9E3779B97F4A7C15U;
  size_t at = 0;
  while (at < text.size()) {
    uint64_t word = 0;
    const size_t n = std::min<size_t>(8, text.size() - at);
    std::memcpy(&word, text.data() + at, n);
    state = (state ^ word) * 0xD6E8FEB86659FD93U;
    state ^= state >> 32;
    at += n;
  }
  state *= 0x9E3779B97F4A7C15U;
  return state ^ (state >> 29);
}

void PieceIndex::insert(int32_t id) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  const std::string_view piece = (*pieces_)[id];
  longest_ = std::max(longest_, piece.size());
  const uint64_t h = hash(piece);
  const uint32_t tag = static_cast<uint32_t>(h >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t i = h & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.id < 0) {
      slot = {tag, id};
      ++used_;
      return;
    }
    if (slot.tag == tag && (*pieces_)[slot.id] == piece) {
      slot.id = id;
      return;
    }
  }
}

void PieceIndex::grow() {
  std::vector<Slot> old = std::move(slots_);
  slots_.assign(old.size() * 2, Slot{});
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.id >= 0) insert(slot.id);
  }
}

int32_t PieceIndex::find(std::string_view piece) const noexcept {
  if (piece.size() > longest_ || pieces_ == nullptr) return -1;
  const uint64_t h = hash(piece);
  const uint32_t tag = static_cast<uint32_t>(h >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t i = h & mask; slots_[i].id >= 0; i = (i + 1) & mask) {
    if (slots_[i].tag == tag && (*pieces_)[slots_[i].id] == piece) return slots_[i].id;
  }
  return -1;
}

}  // namespace ropewalk
