// For streams through memory that is in no cache: hardware prefetchers stop at each 4 KiB page and start anew behind it, so
// loops ask for their lines themselves. 1 KiB to 4 KiB ahead measured alike on Skylake (README's `bench rope`).
#pragma once

#include <hwy/base.h>
#include <hwy/cache_control.h>

#include <cstdint>

namespace ropewalk::simd {

inline constexpr int64_t kFetchAheadBytes = 2048;

// Asks for the lines of [x, x + bytes), kFetchAheadBytes further on. They may lie behind the end of the memory: nothing is
// read. Always inlined: g++ takes a function that only prefetches for one without effect, and drops calls of it.
HWY_INLINE void fetch_ahead(const void* x, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) hwy::Prefetch(static_cast<const char*>(x) + kFetchAheadBytes + i);
}

}  // namespace ropewalk::simd
