// The merge loop of byte-pair encoding: join the best pair of neighbours until no pair is left (Sennrich et al. 2016,
// arXiv:1508.07909). O(n log n) for n symbols; rescanning the word after each merge, as in the paper, is O(n^2).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace ropewalk {

inline constexpr uint32_t kNoMerge = std::numeric_limits<uint32_t>::max();

// What two neighbours become: the smaller the rank, the sooner. Equal ranks go left to right.
struct Merge {
  uint32_t rank = kNoMerge;
  int32_t id = -1;
};

struct MergeSymbol {
  int32_t id = -1;     // -1: not a piece, only text
  uint32_t begin = 0;  // [begin, end) in the chunk
  uint32_t end = 0;
  int32_t prev = -1;
  int32_t next = -1;  // -1: last
  Merge merge;        // of this symbol with its right neighbour; a symbol that was merged away keeps none
};

class MergeLoop {
 public:
  // The symbols, filled by the caller with id, begin and end.
  std::vector<MergeSymbol> symbols;

  // merge_of(left, right) -> Merge. Afterwards the symbols that remain are symbols[0], then along `next`.
  template <class MergeOf>
  void run(MergeOf&& merge_of) {
    const int32_t n = static_cast<int32_t>(symbols.size());
    for (int32_t i = 0; i < n; ++i) {
      MergeSymbol& s = symbols[static_cast<size_t>(i)];
      s.prev = i - 1;
      s.next = i + 1 < n ? i + 1 : -1;
      s.merge = s.next < 0 ? Merge{} : merge_of(s, symbols[static_cast<size_t>(i) + 1]);
    }
    if (n <= kScanLimit) {
      run_by_scan(merge_of);
    } else {
      run_by_heap(merge_of);
    }
  }

 private:
  static constexpr int32_t kScanLimit = 24;  // below, scanning for the best pair beats the heap

  MergeSymbol& at(int32_t i) { return symbols[static_cast<size_t>(i)]; }

  template <class MergeOf>
  void join(int32_t left, MergeOf&& merge_of) {
    MergeSymbol& s = at(left);
    MergeSymbol& right = at(s.next);
    s.id = s.merge.id;
    s.end = right.end;
    s.next = right.next;
    right.merge = Merge{};
    if (s.next >= 0) at(s.next).prev = left;
    s.merge = s.next < 0 ? Merge{} : merge_of(s, at(s.next));
    if (s.prev >= 0) at(s.prev).merge = merge_of(at(s.prev), s);
  }

  template <class MergeOf>
  void run_by_scan(MergeOf&& merge_of) {
    if (symbols.empty()) return;
    while (true) {
      int32_t best = 0;
      for (int32_t i = at(0).next; i >= 0; i = at(i).next) {
        if (at(i).merge.rank < at(best).merge.rank) best = i;
      }
      if (at(best).merge.rank == kNoMerge) return;
      join(best, merge_of);
    }
  }

  // An entry is (rank, left symbol) in one word, so the order of integers is the order of merges. Entries that a later merge
  // made untrue stay in the heap and are known by a rank that is no longer their symbol's.
  template <class MergeOf>
  void run_by_heap(MergeOf&& merge_of) {
    heap_.clear();
    const auto entry = [this](int32_t i) { return (uint64_t{at(i).merge.rank} << 32) | static_cast<uint32_t>(i); };
    for (int32_t i = 0; i >= 0; i = at(i).next) {
      if (at(i).merge.rank != kNoMerge) heap_.push_back(entry(i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto push = [&](int32_t i) {
      if (i < 0 || at(i).merge.rank == kNoMerge) return;
      heap_.push_back(entry(i));
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    };
    while (!heap_.empty()) {
      const uint64_t best = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      const int32_t left = static_cast<int32_t>(best & 0xFFFFFFFFU);
      if (at(left).merge.rank != best >> 32) continue;
      join(left, merge_of);
      push(left);
      push(at(left).prev);
    }
  }

  std::vector<uint64_t> heap_;
};

}  // namespace ropewalk
