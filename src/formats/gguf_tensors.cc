#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "formats/gguf_reader.h"
#include "formats/printable.h"

namespace ropewalk::gguf {
namespace {

constexpr uint32_t kMaxDims = 4;

// ggml's numbers for tensor types. Those without a BlockType are known by name only, for the message.
struct TypeEntry {
  uint32_t number;
  const char* name;
  std::optional<BlockType> block;
};
const std::array kTensorTypes = {
    TypeEntry{0, "F32", BlockType::kF32},
    TypeEntry{1, "F16", BlockType::kF16},
    TypeEntry{2, "Q4_0", BlockType::kQ4_0},
    TypeEntry{3, "Q4_1", BlockType::kQ4_1},
    TypeEntry{4, "Q4_2 (removed)", std::nullopt},
    TypeEntry{5, "Q4_3 (removed)", std::nullopt},
    TypeEntry{6, "Q5_0", BlockType::kQ5_0},
    TypeEntry{7, "Q5_1", BlockType::kQ5_1},
    TypeEntry{8, "Q8_0", BlockType::kQ8_0},
    TypeEntry{9, "Q8_1", std::nullopt},
    TypeEntry{10, "Q2_K", BlockType::kQ2_K},
    TypeEntry{11, "Q3_K", BlockType::kQ3_K},
    TypeEntry{12, "Q4_K", BlockType::kQ4_K},
    TypeEntry{13, "Q5_K", BlockType::kQ5_K},
    TypeEntry{14, "Q6_K", BlockType::kQ6_K},
    TypeEntry{15, "Q8_K", std::nullopt},
    TypeEntry{16, "IQ2_XXS", std::nullopt},
    TypeEntry{17, "IQ2_XS", std::nullopt},
    TypeEntry{18, "IQ3_XXS", std::nullopt},
    TypeEntry{19, "IQ1_S", std::nullopt},
    TypeEntry{20, "IQ4_NL", BlockType::kIQ4_NL},
    TypeEntry{21, "IQ3_S", std::nullopt},
    TypeEntry{22, "IQ2_S", std::nullopt},
    TypeEntry{23, "IQ4_XS", BlockType::kIQ4_XS},
    TypeEntry{24, "I8", std::nullopt},
    TypeEntry{25, "I16", std::nullopt},
    TypeEntry{26, "I32", std::nullopt},
    TypeEntry{27, "I64", std::nullopt},
    TypeEntry{28, "F64", std::nullopt},
    TypeEntry{29, "IQ1_M", std::nullopt},
    TypeEntry{30, "BF16", BlockType::kBF16},
    TypeEntry{31, "Q4_0_4_4 (removed)", std::nullopt},
    TypeEntry{32, "Q4_0_4_8 (removed)", std::nullopt},
    TypeEntry{33, "Q4_0_8_8 (removed)", std::nullopt},
    TypeEntry{34, "TQ1_0", std::nullopt},
    TypeEntry{35, "TQ2_0", std::nullopt},
    TypeEntry{36, "IQ4_NL_4_4 (removed)", std::nullopt},
    TypeEntry{37, "IQ4_NL_4_8 (removed)", std::nullopt},
    TypeEntry{38, "IQ4_NL_8_8 (removed)", std::nullopt},
    TypeEntry{39, "MXFP4", std::nullopt},
    TypeEntry{40, "NVFP4", std::nullopt},
    TypeEntry{41, "Q1_0", std::nullopt},
};
const char* kReadableTypes = "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL or IQ4_XS";

// A directory entry before its data is found.
struct Entry {
  StoredTensor tensor;
  uint64_t at = 0;         // byte of the entry
  uint64_t offset_at = 0;  // byte of its offset field
  uint64_t offset = 0;     // from the start of the data
  uint64_t bytes = 0;
};

Result<BlockType> read_type(Cursor& cursor, std::string_view name) {
  const uint64_t at = cursor.offset();
  ROPEWALK_TRY(const uint32_t number, cursor.read<uint32_t>("a tensor type"));
  for (const TypeEntry& type : kTensorTypes) {
    if (type.number != number) continue;
    if (type.block) return *type.block;
    return cursor.error(ErrorCode::kUnsupported, at, "tensor {}: expected type {}, but got {} (type {})", printable(name),
                        kReadableTypes, type.name, number);
  }
  return cursor.error(ErrorCode::kUnsupported, at, "tensor {}: expected type {}, but got an unknown type {}", printable(name),
                      kReadableTypes, number);
}

// Innermost first in the file, outermost first in the result. The number of elements stays below 2^63.
Result<std::vector<int64_t>> read_shape(Cursor& cursor, std::string_view name) {
  const uint64_t count_at = cursor.offset();
  ROPEWALK_TRY(const uint32_t dims, cursor.read<uint32_t>("the number of dimensions"));
  if (dims > kMaxDims) {
    return cursor.error(ErrorCode::kCorrupt, count_at, "tensor {}: expected at most {} dimensions, but got {}", printable(name),
                        kMaxDims, dims);
  }
  std::vector<int64_t> shape(dims);
  int64_t elements = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    const uint64_t at = cursor.offset();
    ROPEWALK_TRY(const uint64_t dim, cursor.read<uint64_t>("a dimension"));
    int64_t product = 0;
    if (dim == 0 || dim > static_cast<uint64_t>(INT64_MAX) ||
        __builtin_mul_overflow(elements, static_cast<int64_t>(dim), &product)) {
      return cursor.error(ErrorCode::kCorrupt, at,
                          "tensor {}: expected a dimension of at least 1 and fewer than 2^63 elements, but got {} as dimension "
                          "{} after {} elements",
                          printable(name), dim, i, elements);
    }
    elements = product;
    shape[dims - 1 - i] = static_cast<int64_t>(dim);
  }
  return shape;
}

Result<Entry> read_entry(Cursor& cursor, uint64_t alignment) {
  Entry entry;
  entry.at = cursor.offset();
  ROPEWALK_TRY(const std::string_view name, cursor.read_string("a tensor name"));
  if (name.empty()) return cursor.error(ErrorCode::kCorrupt, entry.at, "tensor: expected a name, but got an empty one");
  entry.tensor.name = std::string(name);
  ROPEWALK_TRY(entry.tensor.shape, read_shape(cursor, name));
  const uint64_t type_at = cursor.offset();
  ROPEWALK_TRY(entry.tensor.type, read_type(cursor, name));
  entry.offset_at = cursor.offset();
  ROPEWALK_TRY(entry.offset, cursor.read<uint64_t>("a tensor offset"));

  const BlockType type = entry.tensor.type;
  if (entry.tensor.cols() % block_elements(type) != 0) {
    return cursor.error(ErrorCode::kCorrupt, type_at,
                        "tensor {}: expected rows of a multiple of {} elements for {}, but got {}", printable(name),
                        block_elements(type), to_string(type), entry.tensor.cols());
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(entry.tensor.elements() / block_elements(type), block_bytes(type), &bytes)) {
    return cursor.error(ErrorCode::kCorrupt, entry.at, "tensor {}: expected fewer than 2^63 bytes, but got {} elements of {}",
                        printable(name), entry.tensor.elements(), to_string(type));
  }
  entry.bytes = static_cast<uint64_t>(bytes);
  if (entry.offset % alignment != 0) {
    return cursor.error(ErrorCode::kCorrupt, entry.offset_at,
                        "tensor {}: expected an offset that is a multiple of {}, but got {}", printable(name), alignment,
                        entry.offset);
  }
  return entry;
}

// Sorting finds an overlap between neighbours, in O(n log n).
Result<void> check_overlaps(const Cursor& cursor, const std::vector<Entry>& entries) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return entries[a].offset != entries[b].offset ? entries[a].offset < entries[b].offset : a < b;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const Entry& before = entries[order[i - 1]];
    const Entry& after = entries[order[i]];
    if (before.offset + before.bytes > after.offset) {
      return cursor.error(ErrorCode::kCorrupt, after.offset_at,
                          "tensor {}: expected data of its own, but got offset {} inside tensor {} (offsets {} to {})",
                          printable(after.tensor.name), after.offset, printable(before.tensor.name), before.offset,
                          before.offset + before.bytes);
    }
  }
  return {};
}

}  // namespace

Result<std::vector<StoredTensor>> read_tensors(Cursor& cursor, std::span<const std::byte> bytes, uint64_t count,
                                               uint64_t alignment, uint64_t* data_start) {
  std::vector<Entry> entries;
  for (uint64_t i = 0; i < count; ++i) {
    ROPEWALK_TRY(Entry entry, read_entry(cursor, alignment));
    entries.push_back(std::move(entry));
  }
  std::unordered_set<std::string_view> seen;  // after the vector has stopped growing: the views point into it
  for (const Entry& entry : entries) {
    if (!seen.insert(entry.tensor.name).second) {
      return cursor.error(ErrorCode::kCorrupt, entry.at, "tensor {}: expected each name once, but got it a second time",
                          printable(entry.tensor.name));
    }
  }
  // alignment is at most 2^32 and the cursor inside the file, so this cannot wrap.
  *data_start = (cursor.offset() + alignment - 1) / alignment * alignment;
  const uint64_t data_size = bytes.size() > *data_start ? bytes.size() - *data_start : 0;
  for (Entry& entry : entries) {
    if (entry.offset > data_size || entry.bytes > data_size - entry.offset) {
      return cursor.error(
          ErrorCode::kCorrupt, entry.offset_at,
          "tensor {}: expected its {} bytes at offset {} to lie within the {} bytes of tensor data (from byte {}), but got a "
          "file of {} bytes",
          printable(entry.tensor.name), entry.bytes, entry.offset, data_size, *data_start, bytes.size());
    }
    entry.tensor.data = bytes.subspan(*data_start + entry.offset, entry.bytes);
  }
  ROPEWALK_CHECK_OK(check_overlaps(cursor, entries));
  std::vector<StoredTensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) tensors.push_back(std::move(entry.tensor));
  return tensors;
}

}  // namespace ropewalk::gguf
