#include "formats/tensor.h"

#include <array>
#include <cstring>

#include "simd/dequant.h"

namespace ropewalk {
namespace {

void copy_f32(const std::byte* data, int64_t count, float* out) noexcept {
  if (count > 0) std::memcpy(out, data, static_cast<size_t>(count) * sizeof(float));
}

struct BlockTraits {
  const char* name;
  int64_t elements;
  int64_t bytes;
  void (*expand)(const std::byte* data, int64_t blocks, float* out) noexcept;
};

// In the order of BlockType.
constexpr std::array<BlockTraits, 15> kTraits = {{
    {"F32", 1, 4, copy_f32},
    {"F16", 1, 2, simd::dequant_f16},
    {"BF16", 1, 2, simd::dequant_bf16},
    {"Q4_0", 32, 18, simd::dequant_q4_0},
    {"Q4_1", 32, 20, simd::dequant_q4_1},
    {"Q5_0", 32, 22, simd::dequant_q5_0},
    {"Q5_1", 32, 24, simd::dequant_q5_1},
    {"Q8_0", 32, 34, simd::dequant_q8_0},
    {"Q2_K", 256, 84, simd::dequant_q2_k},
    {"Q3_K", 256, 110, simd::dequant_q3_k},
    {"Q4_K", 256, 144, simd::dequant_q4_k},
    {"Q5_K", 256, 176, simd::dequant_q5_k},
    {"Q6_K", 256, 210, simd::dequant_q6_k},
    {"IQ4_NL", 32, 18, simd::dequant_iq4_nl},
    {"IQ4_XS", 256, 136, simd::dequant_iq4_xs},
}};

const BlockTraits& traits(BlockType type) noexcept { return kTraits[static_cast<size_t>(type)]; }

}  // namespace

const char* to_string(BlockType type) noexcept { return traits(type).name; }
int64_t block_elements(BlockType type) noexcept { return traits(type).elements; }
int64_t block_bytes(BlockType type) noexcept { return traits(type).bytes; }

int64_t StoredTensor::elements() const noexcept {
  int64_t n = 1;
  for (int64_t dim : shape) n *= dim;
  return n;
}

int64_t StoredTensor::rows() const noexcept {
  int64_t n = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) n *= shape[i];
  return n;
}

int64_t StoredTensor::cols() const noexcept { return shape.empty() ? 1 : shape.back(); }

void dequantize(BlockType type, const std::byte* blocks, int64_t count, float* out) noexcept {
  const BlockTraits& t = traits(type);
  t.expand(blocks, count / t.elements, out);
}

void dequantize_rows(const StoredTensor& tensor, int64_t first, int64_t count, float* out) noexcept {
  const BlockTraits& t = traits(tensor.type);
  const int64_t row_bytes = tensor.cols() / t.elements * t.bytes;
  dequantize(tensor.type, tensor.data.data() + first * row_bytes, count * tensor.cols(), out);
}

}  // namespace ropewalk
