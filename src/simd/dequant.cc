// Layouts: one letter a byte; 32 elements a block for the first group, 256 for the K and XS types. All multi-byte fields are
// little endian. d, m are f16 scales, q quants.
//
//   Q4_0   [dd qqqq qqqq qqqq qqqq]             low nibbles are elements 0..15, high ones 16..31; (q - 8) d
//   Q4_1   [dd mm q*16]                         q d + m
//   Q5_0   [dd hhhh q*16]                       bit j of h is bit 4 of element j; (q - 16) d
//   Q5_1   [dd mm hhhh q*16]                    q d + m
//   Q8_0   [dd q*32]                            signed bytes
//   Q2_K   [s*16 q*64 dd mm]                    s: low nibble scale, high nibble minimum, of 16 elements
//   Q3_K   [h*32 q*64 s*12 dd]                  6-bit scales less 32, of 16; third bit inverted in h
//   Q4_K   [dd mm s*12 q*128]                   6-bit scales and minima of 32
//   Q5_K   [dd mm s*12 h*32 q*128]
//   Q6_K   [q*128 h*64 s*16 dd]                 signed 8-bit scales of 16; q less 32
//   IQ4_NL [dd q*16]                            q chooses one of 16 levels
//   IQ4_XS [dd hh s*4 q*128]                    6-bit scales less 32, of 32
#include "simd/dequant.h"

#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/dequant.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ropewalk::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes: 16 elements share a scale in the finest types.
using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using D8 = hn::Rebind<uint8_t, DF>;
using DS8 = hn::Rebind<int8_t, DF>;
using D16 = hn::Rebind<uint16_t, DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using V8 = hn::Vec<D8>;

HWY_INLINE float half(const uint8_t* p) {
  const uint32_t bits = static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8;
  const uint32_t magnitude = bits & 0x7fffu;
  const uint32_t sign = (bits & 0x8000u) << 16;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f));
}

HWY_INLINE V8 load8(const uint8_t* p) { return hn::LoadU(D8(), p); }
HWY_INLINE V8 low4(V8 q) { return hn::And(q, hn::Set(D8(), 0x0f)); }
HWY_INLINE V8 high4(V8 q) { return hn::ShiftRight<4>(q); }
HWY_INLINE VI widen(V8 q) { return hn::PromoteTo(DI(), q); }
HWY_INLINE VF as_float(VI q) { return hn::ConvertTo(DF(), q); }
HWY_INLINE VF as_float(V8 q) { return as_float(widen(q)); }

// Bits [j, j + N) of h, one a lane, moved to bit 4.
HWY_INLINE VI fifth_bits(uint32_t h, size_t j) {
  const DU du;
  const auto bits = hn::Shr(hn::Set(du, h), hn::Iota(du, static_cast<uint32_t>(j)));
  return hn::BitCast(DI(), hn::ShiftLeft<4>(hn::And(bits, hn::Set(du, 1))));
}

HWY_INLINE void store_scaled(VF q, float scale, float* out) {
  const DF df;
  hn::StoreU(hn::Mul(q, hn::Set(df, scale)), df, out);
}
HWY_INLINE void store_affine(VF q, float scale, float offset, float* out) {
  const DF df;
  hn::StoreU(hn::Add(hn::Mul(q, hn::Set(df, scale)), hn::Set(df, offset)), df, out);
}

const uint8_t* bytes(const std::byte* data) { return reinterpret_cast<const uint8_t*>(data); }

void f16(const std::byte* data, int64_t count, float* out) {
  const DF df;
  const DU du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  const uint8_t* p = bytes(data);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto h = hn::PromoteTo(du, hn::LoadU(D16(), reinterpret_cast<const uint16_t*>(p + 2 * i)));
    // As in half(): a shift and an exact product by 2^112 move the exponent's bias, subnormals included.
    const auto magnitude = hn::And(h, hn::Set(du, 0x7fff));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(h, magnitude));
    const auto wide = hn::ShiftLeft<13>(magnitude);
    const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(df, wide), hn::Set(df, 0x1p112f)));
    const auto special = hn::Or(wide, hn::Set(du, 0x7f800000u));
    const auto is_special = hn::Gt(hn::BitCast(DI(), magnitude), hn::Set(DI(), 0x7bff));
    const auto result = hn::IfThenElse(hn::RebindMask(du, is_special), special, finite);
    hn::StoreU(hn::BitCast(df, hn::Or(result, sign)), df, out + i);
  }
  for (; i < count; ++i) out[i] = half(p + 2 * i);
}

void bf16(const std::byte* data, int64_t count, float* out) {
  const DF df;
  const DU du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  const uint8_t* p = bytes(data);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto h = hn::PromoteTo(du, hn::LoadU(D16(), reinterpret_cast<const uint16_t*>(p + 2 * i)));
    hn::StoreU(hn::BitCast(df, hn::ShiftLeft<16>(h)), df, out + i);
  }
  for (; i < count; ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(p[2 * i]) << 16 | static_cast<uint32_t>(p[2 * i + 1]) << 24);
  }
}

void q4_0(const std::byte* data, int64_t blocks, float* out) {
  const DF df;
  const VF eight = hn::Set(df, 8.0f);
  const uint8_t* p = bytes(data);
  for (int64_t b = 0; b < blocks; ++b, p += 18, out += 32) {
    const float d = half(p);
    for (size_t j = 0; j < 16; j += hn::Lanes(df)) {
      const V8 q = load8(p + 2 + j);
      store_scaled(hn::Sub(as_float(low4(q)), eight), d, out + j);
      store_scaled(hn::Sub(as_float(high4(q)), eight), d, out + 16 + j);
    }
  }
}

void q4_1(const std::byte* data, int64_t blocks, float* out) {
  const DF df;
  const uint8_t* p = bytes(data);
  for (int64_t b = 0; b < blocks; ++b, p += 20, out += 32) {
    const float d = half(p);
    const float m = half(p + 2);
    for (size_t j = 0; j < 16; j += hn::Lanes(df)) {
      const V8 q = load8(p + 4 + j);
      store_affine(as_float(low4(q)), d, m, out + j);
      store_affine(as_float(high4(q)), d, m, out + 16 + j);
    }
  }
}

HWY_INLINE uint32_t word(const uint8_t* p) {
  uint32_t w = 0;
  std::memcpy(&w, p, 4);
  return w;
}

void q5_0(const std::byte* data, int64_t blocks, float* out) {
  const DF df;
  const VI sixteen = hn::Set(DI(), 16);
  const uint8_t* p = bytes(data);
  for (int64_t b = 0; b < blocks; ++b, p += 22, out += 32) {
    const float d = half(p);
    const uint32_t h = word(p + 2);
    for (size_t j = 0; j < 16; j += hn::Lanes(df)) {
      const V8 q = load8(p + 6 + j);
      store_scaled(as_float(hn::Sub(hn::Or(widen(low4(q)), fifth_bits(h, j)), sixteen)), d, out + j);
      store_scaled(as_float(hn::Sub(hn::Or(widen(high4(q)), fifth_bits(h, j + 16)), sixteen)), d, out + 16 + j);
    }
  }
}

void q5_1(const std::byte* data, int64_t blocks, float* out) {
  const DF df;
  const uint8_t* p = bytes(data);
  for (int64_t b = 0; b < blocks; ++b, p += 24, out += 32) {
    const float d = half(p);
    const float m = half(p + 2);
    const uint32_t h = word(p + 4);
    for (size_t j = 0; j < 16; j += hn::Lanes(df)) {
      const V8 q = load8(p + 8 + j);
      store_affine(as_float(hn::Or(widen(low4(q)), fifth_bits(h, j))), d, m, out + j);
      store_affine(as_float(hn::Or(widen(high4(q)), fifth_bits(h, j + 16))), d, m, out + 16 + j);
    }
  }
}

void q8_0(const std::byte* data, int64_t blocks, float* out) {
  const DF df;
  const uint8_t* p = bytes(data);
  for (int64_t b = 0; b < blocks; ++b, p += 34, out += 32) {
    const float d = half(p);
    for (size_t j = 0; j < 32; j += hn::Lanes(df)) {
      const auto q = hn::LoadU(DS8(), reinterpret_cast<const int8_t*>(p + 2 + j));
      store_scaled(as_float(hn::PromoteTo(DI(), q)), d, out + j);
    }
  }
}

void q2_k(const std::byte* data, int64_t blocks, float* out) {
  const DF df;
  const uint8_t* p = bytes(data);
  for (int64_t b = 0; b < blocks; ++b, p += 84) {
    const float d = half(p + 80);
    const float m = half(p + 82);
    // Group g of 16 elements: bits 2 ((g / 2) % 4) of the 16 bytes at 32 (g / 8) + 16 (g % 2).
    for (int g = 0; g < 16; ++g, out += 16) {
      const float scale = d * static_cast<float>(p[g] & 15);
      const float minimum = -(m * static_cast<float>(p[g] >> 4));
      const uint8_t* q = p + 16 + 32 * (g / 8) + 16 * (g % 2);
      const int shift = 2 * ((g / 2) % 4);
      for (size_t j = 0; j < 16; j += hn::Lanes(df)) {
        const VI bits = hn::And(hn::ShiftRightSame(widen(load8(q + j)), shift), hn::Set(DI(), 3));
        store_affine(as_float(bits), scale, minimum, out + j);
      }
    }
  }
}

void q3_k(const std::byte* data, int64_t blocks, float* out) {
  const DF df;
  const DI di;
  const uint8_t* p = bytes(data);
  for (int64_t b = 0; b < blocks; ++b, p += 110) {
    const float d = half(p + 108);
    const uint8_t* s = p + 96;
    for (int g = 0; g < 16; ++g, out += 16) {
      const int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
      const int high = (s[8 + g % 4] >> (2 * (g / 4))) & 3;
      const float scale = d * static_cast<float>((low | high << 4) - 32);
      const uint8_t* q = p + 32 + 32 * (g / 8) + 16 * (g % 2);
      const uint8_t* h = p + 16 * (g % 2);
      const int shift = 2 * ((g / 2) % 4);
      for (size_t j = 0; j < 16; j += hn::Lanes(df)) {
        const VI bits = hn::And(hn::ShiftRightSame(widen(load8(q + j)), shift), hn::Set(di, 3));
        const VI third = hn::And(hn::ShiftRightSame(widen(load8(h + j)), g / 2), hn::Set(di, 1));
        store_scaled(as_float(hn::Sub(hn::Or(bits, hn::ShiftLeft<2>(third)), hn::Set(di, 4))), scale, out + j);
      }
    }
  }
}

// Scale and minimum of group g (of 8) of Q4_K and Q5_K: the first four in 6 bits each, the rest as 4 bits and 2 that the first
// four leave free.
struct ScaleMin {
  float scale, minimum;
};
HWY_INLINE ScaleMin scale_min(const uint8_t* s, int g, float d, float m) {
  const int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
  const int minimum = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | (s[g] >> 6) << 4;
  return {d * static_cast<float>(scale), -(m * static_cast<float>(minimum))};
}

void q4_k(const std::byte* data, int64_t blocks, float* out) {
  const DF df;
  const uint8_t* p = bytes(data);
  for (int64_t b = 0; b < blocks; ++b, p += 144) {
    const float d = half(p);
    const float m = half(p + 2);
    const uint8_t* q = p + 16;
    for (int g = 0; g < 8; g += 2, q += 32, out += 64) {
      const ScaleMin first = scale_min(p + 4, g, d, m);
      const ScaleMin second = scale_min(p + 4, g + 1, d, m);
      for (size_t j = 0; j < 32; j += hn::Lanes(df)) {
        const V8 v = load8(q + j);
        store_affine(as_float(low4(v)), first.scale, first.minimum, out + j);
        store_affine(as_float(high4(v)), second.scale, second.minimum, out + 32 + j);
      }
    }
  }
}

void q5_k(const std::byte* data, int64_t blocks, float* out) {
  const DF df;
  const DI di;
  const uint8_t* p = bytes(data);
  for (int64_t b = 0; b < blocks; ++b, p += 176) {
    const float d = half(p);
    const float m = half(p + 2);
    const uint8_t* h = p + 16;
    const uint8_t* q = p + 48;
    for (int g = 0; g < 8; g += 2, q += 32, out += 64) {
      const ScaleMin first = scale_min(p + 4, g, d, m);
      const ScaleMin second = scale_min(p + 4, g + 1, d, m);
      for (size_t j = 0; j < 32; j += hn::Lanes(df)) {
        const V8 v = load8(q + j);
        const VI fifth = hn::ShiftRightSame(widen(load8(h + j)), g);
        const VI fifth_first = hn::ShiftLeft<4>(hn::And(fifth, hn::Set(di, 1)));
        const VI fifth_second = hn::ShiftLeft<3>(hn::And(fifth, hn::Set(di, 2)));
        store_affine(as_float(hn::Or(widen(low4(v)), fifth_first)), first.scale, first.minimum, out + j);
        store_affine(as_float(hn::Or(widen(high4(v)), fifth_second)), second.scale, second.minimum, out + 32 + j);
      }
    }
  }
}

void q6_k(const std::byte* data, int64_t blocks, float* out) {
  const DF df;
  const D8 d8;
  const VF offset = hn::Set(df, 32.0f);
  const V8 two_bits = hn::Set(d8, 0x30);
  const uint8_t* p = bytes(data);
  for (int64_t b = 0; b < blocks; ++b, p += 210) {
    const float d = half(p + 208);
    for (int part = 0; part < 2; ++part, out += 128) {
      const uint8_t* q = p + 64 * part;
      const uint8_t* h = p + 128 + 32 * part;
      float scale[8];
      for (int g = 0; g < 8; ++g) scale[g] = d * static_cast<float>(static_cast<int8_t>(p[192 + 8 * part + g]));
      for (size_t j = 0; j < 32; j += hn::Lanes(df)) {
        const V8 a = load8(q + j);
        const V8 c = load8(q + 32 + j);
        const V8 high = load8(h + j);
        const size_t g = j / 16;
        const V8 q0 = hn::Or(low4(a), hn::And(hn::ShiftLeft<4>(high), two_bits));
        const V8 q1 = hn::Or(low4(c), hn::And(hn::ShiftLeft<2>(high), two_bits));
        const V8 q2 = hn::Or(high4(a), hn::And(high, two_bits));
        const V8 q3 = hn::Or(high4(c), hn::And(hn::ShiftRight<2>(high), two_bits));
        store_scaled(hn::Sub(as_float(q0), offset), scale[g], out + j);
        store_scaled(hn::Sub(as_float(q1), offset), scale[g + 2], out + 32 + j);
        store_scaled(hn::Sub(as_float(q2), offset), scale[g + 4], out + 64 + j);
        store_scaled(hn::Sub(as_float(q3), offset), scale[g + 6], out + 96 + j);
      }
    }
  }
}

// The 16 levels of the IQ4 types, denser around zero.
alignas(16) constexpr int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// 32 elements from 16 bytes.
HWY_INLINE void expand_levels(const uint8_t* q, float scale, float* out) {
  alignas(16) int8_t level[32];
#if HWY_TARGET == HWY_SCALAR
  for (int j = 0; j < 16; ++j) {
    level[j] = kLevels[q[j] & 15];
    level[j + 16] = kLevels[q[j] >> 4];
  }
#else
  const hn::FixedTag<uint8_t, 16> d8;
  const hn::FixedTag<int8_t, 16> ds8;
  const auto table = hn::Load(ds8, kLevels);
  const auto both = hn::LoadU(d8, q);
  hn::Store(hn::TableLookupBytes(table, hn::BitCast(ds8, hn::And(both, hn::Set(d8, 0x0f)))), ds8, level);
  hn::Store(hn::TableLookupBytes(table, hn::BitCast(ds8, hn::ShiftRight<4>(both))), ds8, level + 16);
#endif
  for (size_t j = 0; j < 32; j += hn::Lanes(DF())) {
    store_scaled(as_float(hn::PromoteTo(DI(), hn::LoadU(DS8(), level + j))), scale, out + j);
  }
}

void iq4_nl(const std::byte* data, int64_t blocks, float* out) {
  const uint8_t* p = bytes(data);
  for (int64_t b = 0; b < blocks; ++b, p += 18, out += 32) expand_levels(p + 2, half(p), out);
}

void iq4_xs(const std::byte* data, int64_t blocks, float* out) {
  const uint8_t* p = bytes(data);
  for (int64_t b = 0; b < blocks; ++b, p += 136) {
    const float d = half(p);
    const int high = p[2] | p[3] << 8;
    for (int g = 0; g < 8; ++g, out += 32) {
      const int scale = ((p[4 + g / 2] >> (4 * (g % 2))) & 15) | ((high >> (2 * g)) & 3) << 4;
      expand_levels(p + 8 + 16 * g, d * static_cast<float>(scale - 32), out);
    }
  }
}

}  // namespace

#define ROPEWALK_DEFINE_TARGET(format) \
  void target_##format(const std::byte* data, int64_t blocks, float* out) { format(data, blocks, out); }
ROPEWALK_DEQUANT_FORMATS(ROPEWALK_DEFINE_TARGET)
#undef ROPEWALK_DEFINE_TARGET

}  // namespace ropewalk::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk::simd {

#define ROPEWALK_DEFINE_DEQUANT(format)                                               \
  HWY_EXPORT(target_##format);                                                        \
  void dequant_##format(const std::byte* data, int64_t blocks, float* out) noexcept { \
    HWY_DYNAMIC_DISPATCH(target_##format)(data, blocks, out);                         \
  }
ROPEWALK_DEQUANT_FORMATS(ROPEWALK_DEFINE_DEQUANT)
#undef ROPEWALK_DEFINE_DEQUANT

}  // namespace ropewalk::simd
#endif  // HWY_ONCE
