// What a term keeps for each distance that some call asked for: made once, in parallel, and shared by the calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "base/fail.h"
#include "base/parallel.h"

namespace ropewalk {

template <class T>
class DistanceCache {
 public:
  // `width` elements a distance; `most` elements in all.
  DistanceCache(int64_t width, int64_t most) : width_(width), most_(most / width) {}

  // Distances [least, largest] are there from now on. fill(first, count, to) writes `count` distances, `piece` of them at
  // most. Another call may be using what was made before, so that is kept, and the next one is at least twice as long: all
  // together hold at most twice what is used. Errors: kTooLarge.
  Result<void> prepare(const char* who, int64_t least, int64_t largest, int64_t piece,
                       FunctionRef<void(int64_t first, int64_t count, T* to)> fill) const {
    const std::lock_guard lock(mutex_);
    const Range* known = range_;
    if (known != nullptr) {
      if (known->least <= least && largest <= known->largest) return {};
      least = std::min(least, known->least);
      largest = std::max(largest, known->largest);
    }
    if (largest - least >= most_) {
      return fail(ErrorCode::kTooLarge, "[{}] expected at most {} distances, but got {} to {}", who, most_, least, largest);
    }
    if (known != nullptr) largest = std::max(largest, least + std::min(most_, 2 * (known->largest - known->least + 1)) - 1);
    auto made = std::make_unique<Range>();
    made->least = least;
    made->largest = largest;
    const int64_t count = largest - least + 1;
    try {
      made->values.resize(static_cast<size_t>(count * width_));
    } catch (const std::bad_alloc&) {
      return fail(ErrorCode::kTooLarge, "[{}] no memory for {} distances", who, count);
    }
    parallel_for({available_cores()}, (count + piece - 1) / piece, [&](int64_t item, int) {
      const int64_t at = item * piece;
      fill(least + at, std::min(piece, count - at), made->values.data() + at * width_);
    });
    range_ = made.get();
    kept_.push_back(std::move(made));
    return {};
  }

  // [width], distances in order behind each other; null where the distances [least, largest] were not all prepared.
  const T* find(int64_t least, int64_t largest) const {
    const Range* range = range_;
    if (range == nullptr || least < range->least || largest > range->largest) return nullptr;
    return range->values.data() + (least - range->least) * width_;
  }

  // How many distances are there, from `least` on.
  int64_t distances(int64_t& least) const {
    const Range* range = range_;
    least = range == nullptr ? 0 : range->least;
    return range == nullptr ? 0 : range->largest - range->least + 1;
  }

 private:
  struct Range {
    int64_t least = 0, largest = -1;
    std::vector<T> values;
  };
  int64_t width_, most_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<const Range>> kept_;
  mutable std::atomic<const Range*> range_ = nullptr;  // the last of kept_
};

}  // namespace ropewalk
