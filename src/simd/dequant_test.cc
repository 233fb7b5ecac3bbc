// Every SIMD target of this machine against the definition of an element, written here element by element in double.
#include "simd/dequant.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/random.h"
#include "ropewalk/dtype.h"

namespace ropewalk::simd {
namespace {

double f16_at(const uint8_t* p) { return static_cast<double>(to_f32(f16_t{static_cast<uint16_t>(p[0] | p[1] << 8)})); }
int bit(const uint8_t* p, int i) { return p[i / 8] >> (i % 8) & 1; }
int nibble(const uint8_t* q, int i) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }

// 6-bit fields of the 12 bytes of Q4_K and Q5_K, as a table of bit positions {byte, shift, width} low part first.
int six_bits_scale(const uint8_t* s, int g) { return g < 4 ? s[g] % 64 : s[g + 4] % 16 + 16 * (s[g - 4] / 64); }
int six_bits_min(const uint8_t* s, int g) { return g < 4 ? s[g + 4] % 64 : s[g + 4] / 16 + 16 * (s[g] / 64); }
int k_nibble(const uint8_t* q, int i) { return i / 32 % 2 == 0 ? q[i / 64 * 32 + i % 32] % 16 : q[i / 64 * 32 + i % 32] / 16; }
int two_bits(const uint8_t* q, int i) { return q[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4)) & 3; }

double q3_k_element(const uint8_t* p, int i) {
  const uint8_t* s = p + 96;
  const int g = i / 16;
  const int low = g < 8 ? s[g] % 16 : s[g - 8] / 16;
  const int scale = low + 16 * (s[8 + g % 4] >> (2 * (g / 4)) & 3) - 32;
  const int third = p[i % 32] >> (i / 32) & 1;
  return f16_at(p + 108) * scale * (two_bits(p + 32, i) - (third ? 0 : 4));
}

double q6_k_element(const uint8_t* p, int i) {
  const int half = i / 128, r = i % 128, l = r % 32, quarter = r / 32;
  const uint8_t low_byte = p[64 * half + l + 32 * (quarter % 2)];
  const int low = quarter < 2 ? low_byte % 16 : low_byte / 16;
  const int high = p[128 + 32 * half + l] >> (2 * quarter) & 3;
  return f16_at(p + 208) * std::bit_cast<int8_t>(p[192 + i / 16]) * (low + 16 * high - 32);
}

double level(int q) {
  constexpr int kLevels[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return kLevels[q];
}

double iq4_xs_element(const uint8_t* p, int i) {
  const int g = i / 32;
  const int scale = (p[4 + g / 2] >> (4 * (g % 2)) & 15) + 16 * ((p[2] | p[3] << 8) >> (2 * g) & 3) - 32;
  return f16_at(p) * scale * level(nibble(p + 8 + 16 * g, i % 32));
}

struct Format {
  const char* name;
  int elements, bytes;
  std::vector<int> scales;  // where the f16 scales lie
  void (*expand)(const std::byte*, int64_t, float*) noexcept;
  std::function<double(const uint8_t*, int)> element;
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {"f16", 1, 2, {0}, dequant_f16, [](const uint8_t* p, int) { return f16_at(p); }},
      {"bf16",
       1,
       2,
       {},
       dequant_bf16,
       [](const uint8_t* p, int) {
         return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(p[0] | p[1] << 8) << 16));
       }},
      {"q4_0", 32, 18, {0}, dequant_q4_0, [](const uint8_t* p, int i) { return f16_at(p) * (nibble(p + 2, i) - 8); }},
      {"q4_1",
       32,
       20,
       {0, 2},
       dequant_q4_1,
       [](const uint8_t* p, int i) { return f16_at(p) * nibble(p + 4, i) + f16_at(p + 2); }},
      {"q5_0",
       32,
       22,
       {0},
       dequant_q5_0,
       [](const uint8_t* p, int i) { return f16_at(p) * (nibble(p + 6, i) + 16 * bit(p + 2, i) - 16); }},
      {"q5_1",
       32,
       24,
       {0, 2},
       dequant_q5_1,
       [](const uint8_t* p, int i) { return f16_at(p) * (nibble(p + 8, i) + 16 * bit(p + 4, i)) + f16_at(p + 2); }},
      {"q8_0", 32, 34, {0}, dequant_q8_0, [](const uint8_t* p, int i) { return f16_at(p) * std::bit_cast<int8_t>(p[2 + i]); }},
      {"q2_k",
       256,
       84,
       {80, 82},
       dequant_q2_k,
       [](const uint8_t* p, int i) {
         return f16_at(p + 80) * (p[i / 16] % 16) * two_bits(p + 16, i) - f16_at(p + 82) * (p[i / 16] / 16);
       }},
      {"q3_k", 256, 110, {108}, dequant_q3_k, q3_k_element},
      {"q4_k",
       256,
       144,
       {0, 2},
       dequant_q4_k,
       [](const uint8_t* p, int i) {
         return f16_at(p) * six_bits_scale(p + 4, i / 32) * k_nibble(p + 16, i) - f16_at(p + 2) * six_bits_min(p + 4, i / 32);
       }},
      {"q5_k",
       256,
       176,
       {0, 2},
       dequant_q5_k,
       [](const uint8_t* p, int i) {
         const int q = k_nibble(p + 48, i) + 16 * (p[16 + i % 32] >> (i / 32) & 1);
         return f16_at(p) * six_bits_scale(p + 4, i / 32) * q - f16_at(p + 2) * six_bits_min(p + 4, i / 32);
       }},
      {"q6_k", 256, 210, {208}, dequant_q6_k, q6_k_element},
      {"iq4_nl", 32, 18, {0}, dequant_iq4_nl, [](const uint8_t* p, int i) { return f16_at(p) * level(nibble(p + 2, i)); }},
      {"iq4_xs", 256, 136, {0}, dequant_iq4_xs, iq4_xs_element},
  };
  return all;
}

std::vector<uint8_t> random_blocks(const Format& format, int64_t blocks, Random& random) {
  std::vector<uint8_t> data(static_cast<size_t>(blocks * format.bytes));
  for (uint8_t& b : data) b = static_cast<uint8_t>(random.next_u32());
  // Finite scales of every size, subnormals included: inf and NaN are in the golden data.
  for (int64_t b = 0; b < blocks; ++b) {
    for (const int at : format.scales) {
      uint8_t& high = data[static_cast<size_t>(b * format.bytes + at + 1)];
      if ((high & 0x7c) == 0x7c) high = static_cast<uint8_t>(high ^ 0x40);
    }
  }
  return data;
}

// In double every product and sum below is exact (11 + 13 bits, exponents within 2^-24 .. 2^28), so rounding it to f32 is the
// one rounding the format allows: equality is exact.
void check(const Format& format, int64_t target) {
  Random random(7, static_cast<uint64_t>(target));
  const std::vector<int64_t> counts = format.elements == 1 ? std::vector<int64_t>{0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 1000}
                                                           : std::vector<int64_t>{0, 1, 2, 3, 7, 16};
  for (const int64_t blocks : counts) {
    const std::vector<uint8_t> data = random_blocks(format, blocks, random);
    const auto count = static_cast<size_t>(blocks * format.elements);
    for (const size_t shift : {0, 1, 3}) {  // outputs need no alignment either
      constexpr float kGuard = -12345.0f;
      std::vector<float> out(count + shift + 17, kGuard);
      format.expand(reinterpret_cast<const std::byte*>(data.data()), blocks, out.data() + shift);
      for (size_t i = 0; i < count; ++i) {
        const auto e = static_cast<size_t>(format.elements);
        const uint8_t* block = data.data() + i / e * static_cast<size_t>(format.bytes);
        const auto want = static_cast<float>(format.element(block, static_cast<int>(i % e)));
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(out[shift + i])) << format.name;
        } else {
          ASSERT_EQ(out[shift + i], want) << format.name << " on " << hwy::TargetName(target) << ", element " << i << " of "
                                          << count;
        }
      }
      for (size_t i = 0; i < shift; ++i) ASSERT_EQ(out[i], kGuard) << format.name;
      for (size_t i = shift + count; i < out.size(); ++i) ASSERT_EQ(out[i], kGuard) << format.name;
    }
  }
}

TEST(Dequant, EveryFormatOnEveryTarget) {
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
  for (const int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    for (const Format& format : formats()) check(format, target);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// All 65536 halves, on every target.
TEST(Dequant, EveryHalf) {
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  std::vector<float> out(bits.size());
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    dequant_f16(reinterpret_cast<const std::byte*>(bits.data()), 65536, out.data());
    for (size_t i = 0; i < bits.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(to_f32(f16_t{bits[i]})))
          << i << ' ' << hwy::TargetName(target);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace
}  // namespace ropewalk::simd
