#include <array>
#include <limits>
#include <unordered_set>

#include "formats/gguf_reader.h"
#include "formats/printable.h"

namespace ropewalk::gguf {
namespace {

struct TypeTraits {
  const char* name;
  size_t bytes;
};
constexpr std::array<TypeTraits, kTypes> kTypeTraits = {{{"u8", 1},
                                                         {"i8", 1},
                                                         {"u16", 2},
                                                         {"i16", 2},
                                                         {"u32", 4},
                                                         {"i32", 4},
                                                         {"f32", 4},
                                                         {"bool", 1},
                                                         {"string", 8},
                                                         {"array", 12},
                                                         {"u64", 8},
                                                         {"i64", 8},
                                                         {"f64", 8}}};

Result<bool> read_bool(Cursor& cursor, std::string_view key) {
  const uint64_t at = cursor.offset();
  ROPEWALK_TRY(const uint8_t value, cursor.read<uint8_t>(key));
  if (value > 1) {
    return cursor.error(ErrorCode::kCorrupt, at, "key {}: expected a bool of 0 or 1, but got {}", printable(key), value);
  }
  return value == 1;
}

template <class Stored, class Wide>
Result<GgufValue::Array> read_numbers(Cursor& cursor, std::string_view key, uint64_t count) {
  ROPEWALK_TRY(const std::byte* data, cursor.take(count * sizeof(Stored), key));  // the count was checked: no wrap
  std::vector<Wide> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, data + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<Wide>(value);  // NOLINT(bugprone-signed-char-misuse): an int8 is a number here
  }
  return GgufValue::Array(std::move(values));
}

Result<GgufValue::Array> read_bools(Cursor& cursor, std::string_view key, uint64_t count) {
  std::vector<bool> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    ROPEWALK_TRY(const bool value, read_bool(cursor, key));
    values.push_back(value);
  }
  return GgufValue::Array(std::move(values));
}

Result<GgufValue::Array> read_strings(Cursor& cursor, std::string_view key, uint64_t count) {
  std::vector<std::string_view> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    ROPEWALK_TRY(const std::string_view value, cursor.read_string(key));
    values.push_back(value);
  }
  return GgufValue::Array(std::move(values));
}

Result<GgufValue::Array> read_array(Cursor& cursor, std::string_view key, uint32_t* element_type) {
  const uint64_t type_at = cursor.offset();
  ROPEWALK_TRY(const uint32_t type, cursor.read<uint32_t>(key));
  *element_type = type;
  if (type >= kTypes || type == kArray) {
    return cursor.error(ErrorCode::kCorrupt, type_at,
                        "key {}: expected an array of a plain type 0..12 but not 9, but got type {}", printable(key), type);
  }
  const uint64_t count_at = cursor.offset();
  ROPEWALK_TRY(const uint64_t count, cursor.read<uint64_t>(key));
  if (count > cursor.left() / type_bytes(type)) {
    return cursor.error(ErrorCode::kCorrupt, count_at,
                        "key {}: expected an array of {} that fits the {} bytes left, but got {} elements", printable(key),
                        type_name(type), cursor.left(), count);
  }
  switch (type) {
    case kU8: return read_numbers<uint8_t, uint64_t>(cursor, key, count);
    case kI8: return read_numbers<int8_t, int64_t>(cursor, key, count);
    case kU16: return read_numbers<uint16_t, uint64_t>(cursor, key, count);
    case kI16: return read_numbers<int16_t, int64_t>(cursor, key, count);
    case kU32: return read_numbers<uint32_t, uint64_t>(cursor, key, count);
    case kI32: return read_numbers<int32_t, int64_t>(cursor, key, count);
    case kF32: return read_numbers<float, double>(cursor, key, count);
    case kU64: return read_numbers<uint64_t, uint64_t>(cursor, key, count);
    case kI64: return read_numbers<int64_t, int64_t>(cursor, key, count);
    case kF64: return read_numbers<double, double>(cursor, key, count);
    case kBool: return read_bools(cursor, key, count);
    default: return read_strings(cursor, key, count);
  }
}

template <class Stored, class Wide>
Result<void> read_scalar(Cursor& cursor, GgufValue& entry) {
  ROPEWALK_TRY(const Stored value, cursor.read<Stored>(entry.key));
  entry.value = static_cast<Wide>(value);
  return {};
}

Result<void> read_value(Cursor& cursor, GgufValue& entry) {
  switch (entry.type) {
    case kU8: return read_scalar<uint8_t, uint64_t>(cursor, entry);
    case kI8: return read_scalar<int8_t, int64_t>(cursor, entry);
    case kU16: return read_scalar<uint16_t, uint64_t>(cursor, entry);
    case kI16: return read_scalar<int16_t, int64_t>(cursor, entry);
    case kU32: return read_scalar<uint32_t, uint64_t>(cursor, entry);
    case kI32: return read_scalar<int32_t, int64_t>(cursor, entry);
    case kF32: return read_scalar<float, double>(cursor, entry);
    case kU64: return read_scalar<uint64_t, uint64_t>(cursor, entry);
    case kI64: return read_scalar<int64_t, int64_t>(cursor, entry);
    case kF64: return read_scalar<double, double>(cursor, entry);
    case kBool: {
      ROPEWALK_TRY(const bool value, read_bool(cursor, entry.key));
      entry.value = value;
      return {};
    }
    case kString: {
      ROPEWALK_TRY(const std::string_view value, cursor.read_string(entry.key));
      entry.value = value;
      return {};
    }
    default: {
      ROPEWALK_TRY(GgufValue::Array value, read_array(cursor, entry.key, &entry.element_type));
      entry.value = std::move(value);
      return {};
    }
  }
}

}  // namespace

const char* type_name(uint32_t type) noexcept { return type < kTypes ? kTypeTraits[type].name : "unknown"; }
size_t type_bytes(uint32_t type) noexcept { return type < kTypes ? kTypeTraits[type].bytes : 1; }

Result<void> Cursor::need(uint64_t count, std::string_view what) const {
  if (count > left()) {
    return error(ErrorCode::kCorrupt, offset_, "expected {} bytes of {}, but got {} (the file has {} bytes)", count,
                 printable(what), left(), size());
  }
  return {};
}

Result<std::string_view> Cursor::read_string(std::string_view what) {
  const uint64_t at = offset_;
  ROPEWALK_TRY(const uint64_t length, read<uint64_t>(what));
  if (length > left()) {
    return error(ErrorCode::kCorrupt, at, "{}: expected a length within the {} bytes left, but got {}", printable(what), left(),
                 length);
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + offset_, length);
  offset_ += length;
  return text;
}

Result<std::vector<GgufValue>> read_metadata(Cursor& cursor, uint64_t count) {
  std::vector<GgufValue> entries;
  std::unordered_set<std::string_view> seen;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = cursor.offset();
    ROPEWALK_TRY(const std::string_view key, cursor.read_string("a metadata key"));
    if (key.empty()) return cursor.error(ErrorCode::kCorrupt, at, "metadata key {}: expected a name, but got an empty one", i);
    if (!seen.insert(key).second) {
      return cursor.error(ErrorCode::kCorrupt, at, "key {}: expected each key once, but got it a second time", printable(key));
    }
    GgufValue entry;
    entry.key = std::string(key);
    const uint64_t type_at = cursor.offset();
    ROPEWALK_TRY(entry.type, cursor.read<uint32_t>(key));
    if (entry.type >= kTypes) {
      return cursor.error(ErrorCode::kCorrupt, type_at, "key {}: expected a value type 0..12, but got {}", printable(key),
                          entry.type);
    }
    entry.offset = cursor.offset();
    ROPEWALK_CHECK_OK(read_value(cursor, entry));
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace ropewalk::gguf
