// One file: 8 bytes of header length, a JSON header, and data that the tensors cover without hole or overlap.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/fail.h"
#include "formats/json.h"
#include "formats/printable.h"
#include "formats/safetensors_reader.h"

namespace ropewalk::safetensors {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit

// A tensor of the header, and where its data begins and ends, from the start of the data.
struct Entry {
  StoredTensor tensor;
  uint64_t begin = 0, end = 0;
};

template <class... Args>
Error corrupt(const std::string& file, std::string_view tensor, fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorCode::kCorrupt, "[safetensors] {}: tensor {}: {}", file, printable(tensor),
              fmt::format(format, std::forward<Args>(args)...));
}

Result<BlockType> read_type(const std::string& file, const std::string& name, const json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "F32") return BlockType::kF32;
    if (text == "F16") return BlockType::kF16;
    if (text == "BF16") return BlockType::kBF16;
  }
  return fail(ErrorCode::kUnsupported, "[safetensors] {}: tensor {}: dtype: expected F32, F16 or BF16, but got {}", file,
              printable(name), describe(value));
}

Result<std::vector<int64_t>> read_shape(const std::string& file, const std::string& name, const json& value) {
  if (!value.is_array()) return corrupt(file, name, "shape: expected an array of dimensions, but got {}", describe(value));
  std::vector<int64_t> shape;
  for (const json& dim : value) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      return corrupt(file, name, "shape: expected dimensions of at least 0, but got {} in {}", describe(dim), describe(value));
    }
    shape.push_back(static_cast<int64_t>(dim.get<uint64_t>()));
  }
  return shape;
}

// Bytes of a shape; nothing where they pass 2^63. Zero dims do not excuse the others, whose product is formed elsewhere.
std::optional<uint64_t> byte_count(const std::vector<int64_t>& shape, BlockType type) {
  int64_t nonzero = block_bytes(type);
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(nonzero, dim, &nonzero)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : static_cast<uint64_t>(nonzero);
}

Result<Entry> read_entry(const std::string& file, const std::string& name, const json& value, uint64_t data_size) {
  if (name.empty()) return corrupt(file, name, "expected a name, but got an empty one");
  if (!value.is_object())
    return corrupt(file, name, "expected an object with dtype, shape and data_offsets, but got {}", describe(value));
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) return corrupt(file, name, "expected the key {}, but it is missing", key);
  }
  if (value.size() != 3) {
    return corrupt(file, name, "expected the keys dtype, shape and data_offsets only, but got {} keys", value.size());
  }
  Entry entry;
  entry.tensor.name = name;
  ROPEWALK_TRY(entry.tensor.type, read_type(file, name, value["dtype"]));
  ROPEWALK_TRY(entry.tensor.shape, read_shape(file, name, value["shape"]));
  const json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    return corrupt(file, name, "data_offsets: expected two numbers of at least 0, but got {}", describe(offsets));
  }
  entry.begin = offsets[0].get<uint64_t>();
  entry.end = offsets[1].get<uint64_t>();
  if (entry.begin > entry.end)
    return corrupt(file, name, "data_offsets: expected an end after the start {}, but got {}", entry.begin, entry.end);
  if (entry.end > data_size) {
    return corrupt(file, name, "data_offsets: expected an end within the {} bytes of data, but got {}", data_size, entry.end);
  }
  const std::optional<uint64_t> bytes = byte_count(entry.tensor.shape, entry.tensor.type);
  if (!bytes) return corrupt(file, name, "shape: expected fewer than 2^63 bytes, but got {}", describe(value["shape"]));
  if (*bytes != entry.end - entry.begin) {
    return corrupt(file, name, "expected {} bytes for {} {}, but got {} from data_offsets {}", *bytes,
                   to_string(entry.tensor.type), describe(value["shape"]), entry.end - entry.begin, describe(offsets));
  }
  return entry;
}

Result<void> check_metadata(const std::string& file, const json& value) {
  const bool good = value.is_object() && std::all_of(value.begin(), value.end(), [](const json& v) { return v.is_string(); });
  if (good) return {};
  return fail(ErrorCode::kCorrupt, "[safetensors] {}: __metadata__: expected an object of strings, but got {}", file,
              describe(value));
}

// Entries in the order of their data.
Result<void> check_cover(const std::string& file, const std::vector<Entry>& entries, uint64_t data_size) {
  uint64_t covered = 0;
  const Entry* before = nullptr;
  for (const Entry& entry : entries) {
    if (entry.begin < covered) {
      return corrupt(file, entry.tensor.name,
                     "data_offsets: expected data of its own, but got a start of {} before the end {} of tensor {}",
                     entry.begin, covered, printable(before->tensor.name));
    }
    if (entry.begin > covered) {
      return corrupt(file, entry.tensor.name,
                     "data_offsets: expected a start of {}, but got {}: no tensor covers the bytes between", covered,
                     entry.begin);
    }
    covered = entry.end;
    before = &entry;
  }
  if (covered != data_size) {
    return fail(ErrorCode::kCorrupt, "[safetensors] {}: expected {} bytes of data, as the tensors say, but got {}", file,
                covered, data_size);
  }
  return {};
}

}  // namespace

Result<std::vector<StoredTensor>> read_part(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < 8) {
    return fail(ErrorCode::kCorrupt,
                "[safetensors] {}: byte 0: expected the 8 bytes of the header's length, but got a file of {} bytes", name,
                bytes.size());
  }
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), 8);
  if (header_size > bytes.size() - 8) {
    return fail(ErrorCode::kCorrupt,
                "[safetensors] {}: byte 0: expected a header within the file of {} bytes, but got a length of {}", name,
                bytes.size(), header_size);
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, header_size);
  ROPEWALK_TRY(const json header,
               parse_json(text, {.who = "safetensors", .name = name, .offset = 8, .max_bytes = kMaxHeader, .max_depth = 8}));
  if (!header.is_object()) {
    return fail(ErrorCode::kCorrupt, "[safetensors] {}: byte 8: expected a JSON object, but got {}", name, describe(header));
  }
  const std::span<const std::byte> data = bytes.subspan(8 + header_size);
  std::vector<Entry> entries;
  for (const auto& [key, value] : header.items()) {
    if (key == "__metadata__") {
      ROPEWALK_CHECK_OK(check_metadata(name, value));
      continue;
    }
    ROPEWALK_TRY(Entry entry, read_entry(name, key, value, data.size()));
    entry.tensor.data = data.subspan(entry.begin, entry.end - entry.begin);
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : (a.end != b.end ? a.end < b.end : a.tensor.name < b.tensor.name);
  });
  ROPEWALK_CHECK_OK(check_cover(name, entries, data.size()));
  std::vector<StoredTensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) tensors.push_back(std::move(entry.tensor));
  return tensors;
}

}  // namespace ropewalk::safetensors
