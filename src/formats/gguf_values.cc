#include <fmt/format.h>

#include <limits>

#include "formats/gguf.h"
#include "formats/gguf_reader.h"
#include "formats/printable.h"

namespace ropewalk {

std::string describe(const GgufValue& value) {
  using gguf::type_name;
  if (const auto* array = std::get_if<GgufValue::Array>(&value.value)) {
    const size_t size = std::visit([](const auto& elements) { return elements.size(); }, *array);
    return fmt::format("array of {} {}", size, type_name(value.element_type));
  }
  if (const auto* text = std::get_if<std::string_view>(&value.value)) return fmt::format("string \"{}\"", printable(*text));
  const char* name = type_name(value.type);
  if (const auto* x = std::get_if<uint64_t>(&value.value)) return fmt::format("{} {}", name, *x);
  if (const auto* x = std::get_if<int64_t>(&value.value)) return fmt::format("{} {}", name, *x);
  if (const auto* x = std::get_if<bool>(&value.value)) return fmt::format("{} {}", name, *x);
  const double x = std::get<double>(value.value);
  // A float prints as the shortest text that gives the float again, not as the double it widened to.
  return value.type == gguf::kF32 ? fmt::format("{} {}", name, static_cast<float>(x)) : fmt::format("{} {}", name, x);
}

std::optional<int64_t> as_integer(const GgufValue& value) {
  if (const auto* x = std::get_if<int64_t>(&value.value)) return *x;
  if (const auto* x = std::get_if<uint64_t>(&value.value)) {
    if (*x <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return static_cast<int64_t>(*x);
  }
  return std::nullopt;
}

std::optional<double> as_number(const GgufValue& value) {
  if (const auto* x = std::get_if<double>(&value.value)) return *x;
  if (const auto* x = std::get_if<int64_t>(&value.value)) return static_cast<double>(*x);
  if (const auto* x = std::get_if<uint64_t>(&value.value)) return static_cast<double>(*x);
  return std::nullopt;
}

namespace {

Error missing(const GgufFile& file, std::string_view key) {
  return fail(ErrorCode::kNotFound, "[gguf] {}: expected key {}, but the file does not have it", file.path(), key);
}

Error unexpected(const GgufFile& file, const GgufValue& value, std::string_view expected) {
  return fail(ErrorCode::kCorrupt, "[gguf] {}: byte {}: key {}: expected {}, but got {}", file.path(), value.offset,
              printable(value.key), expected, describe(value));
}

}  // namespace

Result<std::string> GgufFile::text(std::string_view key) const {
  const GgufValue* entry = find_key(key);
  if (entry == nullptr) return missing(*this, key);
  const auto* value = std::get_if<std::string_view>(&entry->value);
  if (value == nullptr) return unexpected(*this, *entry, "a string");
  return std::string(*value);
}

Result<int64_t> GgufFile::integer(std::string_view key, int64_t low, int64_t high) const {
  const GgufValue* entry = find_key(key);
  if (entry == nullptr) return missing(*this, key);
  const std::optional<int64_t> value = as_integer(*entry);
  if (!value || *value < low || *value > high)
    return unexpected(*this, *entry, fmt::format("an integer from {} to {}", low, high));
  return *value;
}

Result<double> GgufFile::number(std::string_view key) const {
  const GgufValue* entry = find_key(key);
  if (entry == nullptr) return missing(*this, key);
  const std::optional<double> value = as_number(*entry);
  if (!value) return unexpected(*this, *entry, "a number");
  return *value;
}

}  // namespace ropewalk
