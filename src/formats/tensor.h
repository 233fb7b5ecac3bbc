// A tensor as a file holds it: a name, a block type, a shape and bytes in the map. No knowledge of models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ropewalk/error.h"

namespace ropewalk {

// Element storage in files; the ggml block types by their usual names.
enum class BlockType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS
};

const char* to_string(BlockType type) noexcept;   // "F32", "Q4_K", ...
int64_t block_elements(BlockType type) noexcept;  // elements a block: 1, 32 or 256
int64_t block_bytes(BlockType type) noexcept;

struct StoredTensor {
  std::string name;
  BlockType type = BlockType::kF32;
  std::vector<int64_t> shape;       // outermost first: a matrix is [rows, cols], cols contiguous
  std::span<const std::byte> data;  // into the map, exactly as long as type and shape say

  int64_t elements() const noexcept;
  int64_t rows() const noexcept;  // product of all but the last
  int64_t cols() const noexcept;  // the last (1 for a scalar)
};

// out[0, count) = elements [first, first + count) of the tensor as f32; first and count are multiples of block_elements.
// Precondition: in range. SIMD inside; thread-safe.
void dequantize(BlockType type, const std::byte* blocks, int64_t count, float* out) noexcept;
// The rows [first, first + count) of a matrix, densely.
void dequantize_rows(const StoredTensor& tensor, int64_t first, int64_t count, float* out) noexcept;

// A set of named tensors, whatever the file format.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual const std::vector<StoredTensor>& tensors() const = 0;
  virtual const StoredTensor* find(const std::string& name) const = 0;  // null when absent
  virtual const std::string& path() const = 0;                          // for messages
};

}  // namespace ropewalk
