// Random numbers from a counter: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
// The draw depends on (seed, stream, counter) only, never on threads or order; normal() also on the last bit of this platform's
// log and cos.
#pragma once

#include <array>
#include <cstdint>

namespace ropewalk {

// Four 32-bit words for a 128-bit counter under a 64-bit key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) noexcept;

// A sequence of draws for one (seed, stream). Cheap to make and to copy.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}
  uint32_t next_u32() noexcept;
  uint64_t next_u64() noexcept;
  double uniform() noexcept;            // [0, 1), 53 bits
  uint64_t below(uint64_t n) noexcept;  // [0, n), unbiased; n > 0
  double normal() noexcept;             // mean 0, variance 1 (Box-Muller)

 private:
  uint64_t seed_, stream_, counter_ = 0;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace ropewalk
