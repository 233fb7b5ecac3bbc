#include "base/random.h"

#include <cmath>
#include <numbers>

namespace ropewalk {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) noexcept {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

uint32_t Random::next_u32() noexcept {
  if (used_ == 4) {
    block_ = philox4x32({static_cast<uint32_t>(counter_), static_cast<uint32_t>(counter_ >> 32), static_cast<uint32_t>(stream_),
                         static_cast<uint32_t>(stream_ >> 32)},
                        {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    ++counter_;
    used_ = 0;
  }
  return block_[static_cast<size_t>(used_++)];
}

uint64_t Random::next_u64() noexcept {
  const uint64_t high = next_u32();
  return (high << 32) | next_u32();
}

double Random::uniform() noexcept { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }

uint64_t Random::below(uint64_t n) noexcept {
  const uint64_t threshold = (0 - n) % n;  // draws under it would favour small results
  for (;;) {
    const uint64_t x = next_u64();
    if (x >= threshold) return x % n;
  }
}

double Random::normal() noexcept {
  const double u = 1.0 - uniform();  // (0, 1]
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace ropewalk
