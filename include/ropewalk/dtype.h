// Element types of activations, tables and caches. Quantized block types belong to the file formats (src/formats).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ropewalk/api.h"

namespace ropewalk {

enum class DType : uint8_t { kF32, kF16, kBF16 };

struct f16_t {  // IEEE 754 binary16: [seee eemm mmmm mmmm]
  uint16_t bits = 0;
};
struct bf16_t {  // upper half of a binary32: [seee eeee emmm mmmm]
  uint16_t bits = 0;
};

ROPEWALK_API const char* to_string(DType dtype) noexcept;  // "f32", "f16", "bf16"

constexpr size_t size_of(DType dtype) noexcept { return dtype == DType::kF32 ? 4 : 2; }

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<f16_t> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<bf16_t> {
  static constexpr DType value = DType::kBF16;
};

// One element. Narrowing rounds to nearest, ties to even; NaN stays NaN (quiet), infinities and overflow become infinite.
ROPEWALK_API float to_f32(f16_t x) noexcept;
ROPEWALK_API float to_f32(bf16_t x) noexcept;
inline float to_f32(float x) noexcept { return x; }
ROPEWALK_API f16_t to_f16(float x) noexcept;
ROPEWALK_API bf16_t to_bf16(float x) noexcept;

}  // namespace ropewalk
