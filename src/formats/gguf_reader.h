// Internal to the GGUF reader: one file of a set, read from its bytes.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fail.h"
#include "formats/gguf.h"

namespace ropewalk::gguf {

// Metadata type ids of the format.
enum : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64, kTypes };

const char* type_name(uint32_t type) noexcept;  // "u8", ..., "array"; "unknown" past the last
size_t type_bytes(uint32_t type) noexcept;      // smallest encoding of a value: strings 8, arrays 12

// One file. Views and spans point into the bytes.
struct Part {
  std::string name;  // for messages
  uint32_t version = 0;
  uint64_t data_start = 0;
  std::vector<GgufValue> metadata;
  std::vector<StoredTensor> tensors;
};

// A read position that never passes the end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  uint64_t offset() const { return offset_; }
  uint64_t left() const { return bytes_.size() - offset_; }
  uint64_t size() const { return bytes_.size(); }
  const std::string& name() const { return name_; }

  // `what` says in messages whose bytes are missing.
  template <class T>
  Result<T> read(std::string_view what) {
    ROPEWALK_TRY(const std::byte* data, take(sizeof(T), what));
    T value;
    std::memcpy(&value, data, sizeof(T));
    return value;
  }
  // The next `count` bytes, for loops that need no check an element.
  Result<const std::byte*> take(uint64_t count, std::string_view what) {
    ROPEWALK_CHECK_OK(need(count, what));
    const std::byte* data = bytes_.data() + offset_;
    offset_ += count;
    return data;
  }
  // A length of 8 bytes and that many bytes.
  Result<std::string_view> read_string(std::string_view what);

  // An error at a byte: "[gguf] NAME: byte OFFSET: ...".
  template <class... Args>
  Error error(ErrorCode code, uint64_t at, fmt::format_string<Args...> format, Args&&... args) const {
    return fail(code, "[gguf] {}: byte {}: {}", name_, at, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  Result<void> need(uint64_t count, std::string_view what) const;

  std::span<const std::byte> bytes_;
  std::string name_;
  uint64_t offset_ = 0;
};

// The key-value section: `count` entries. Duplicates, empty keys and unknown types are refused.
Result<std::vector<GgufValue>> read_metadata(Cursor& cursor, uint64_t count);
// The tensor directory: `count` entries, checked against each other and against the bytes of the file. Sets *data_start.
Result<std::vector<StoredTensor>> read_tensors(Cursor& cursor, std::span<const std::byte> bytes, uint64_t count,
                                               uint64_t alignment, uint64_t* data_start);
// Header, metadata, tensors.
Result<Part> read_part(std::span<const std::byte> bytes, const std::string& name);

}  // namespace ropewalk::gguf
