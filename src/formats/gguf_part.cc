#include <algorithm>
#include <bit>

#include "formats/gguf_reader.h"
#include "formats/printable.h"

namespace ropewalk::gguf {
namespace {

// Every key and every tensor starts with the length of its name. Nothing is allocated by these counts; a finer bound would only
// hide the field that is really at fault.
constexpr uint64_t kMinEntryBytes = 8;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 32;

struct Header {
  uint32_t version = 0;
  uint64_t tensors = 0;
  uint64_t keys = 0;
};

Result<Header> read_header(Cursor& cursor, std::span<const std::byte> bytes) {
  if (cursor.size() < 4) {
    return cursor.error(ErrorCode::kCorrupt, 0, "expected the magic GGUF, but got a file of {} bytes", cursor.size());
  }
  const std::string_view magic(reinterpret_cast<const char*>(bytes.data()), 4);
  if (magic != "GGUF") {
    return cursor.error(ErrorCode::kUnsupported, 0, "expected the magic GGUF, but got \"{}\"", printable(magic));
  }
  ROPEWALK_TRY([[maybe_unused]] const uint32_t skipped, cursor.read<uint32_t>("the magic"));
  Header header;
  ROPEWALK_TRY(header.version, cursor.read<uint32_t>("the version"));
  if (header.version != 0 && (header.version & 0xffffu) == 0) {
    return cursor.error(ErrorCode::kUnsupported, 4,
                        "expected little-endian byte order, but got a version of {:#010x}: byte order is big-endian",
                        header.version);
  }
  if (header.version != 2 && header.version != 3) {
    return cursor.error(ErrorCode::kUnsupported, 4, "expected version 2 or 3, but got {}", header.version);
  }
  ROPEWALK_TRY(header.tensors, cursor.read<uint64_t>("the number of tensors"));
  ROPEWALK_TRY(header.keys, cursor.read<uint64_t>("the number of metadata keys"));
  if (header.tensors > cursor.left() / kMinEntryBytes) {
    return cursor.error(ErrorCode::kCorrupt, 8, "expected a number of tensors that fits the {} bytes left, but got {}",
                        cursor.left(), header.tensors);
  }
  if (header.keys > cursor.left() / kMinEntryBytes) {
    return cursor.error(ErrorCode::kCorrupt, 16, "expected a number of metadata keys that fits the {} bytes left, but got {}",
                        cursor.left(), header.keys);
  }
  return header;
}

// Tensor data starts, and every tensor lies, on a multiple of general.alignment (32 when absent).
Result<uint64_t> find_alignment(const Cursor& cursor, const std::vector<GgufValue>& metadata) {
  const auto entry =
      std::find_if(metadata.begin(), metadata.end(), [](const GgufValue& v) { return v.key == "general.alignment"; });
  if (entry == metadata.end()) return uint64_t{32};
  const std::optional<int64_t> value = as_integer(*entry);
  if (!value || *value < 1 || static_cast<uint64_t>(*value) > kMaxAlignment ||
      !std::has_single_bit(static_cast<uint64_t>(*value))) {
    return cursor.error(ErrorCode::kCorrupt, entry->offset,
                        "key general.alignment: expected a power of two from 1 to 2^32, but got {}", describe(*entry));
  }
  return static_cast<uint64_t>(*value);
}

}  // namespace

Result<Part> read_part(std::span<const std::byte> bytes, const std::string& name) {
  Cursor cursor(bytes, name);
  ROPEWALK_TRY(const Header header, read_header(cursor, bytes));
  Part part;
  part.name = name;
  part.version = header.version;
  ROPEWALK_TRY(part.metadata, read_metadata(cursor, header.keys));
  ROPEWALK_TRY(const uint64_t alignment, find_alignment(cursor, part.metadata));
  ROPEWALK_TRY(part.tensors, read_tensors(cursor, bytes, header.tensors, alignment, &part.data_start));
  return part;
}

}  // namespace ropewalk::gguf
