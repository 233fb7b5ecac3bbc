#include "formats/config_object.h"

#include "formats/printable.h"

namespace ropewalk {

using nlohmann::json;

const json* ConfigObject::find(std::string_view key) const {
  const auto it = object_->find(std::string(key));
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

Error ConfigObject::unexpected(std::string_view key, std::string_view expected) const {
  const json* value = find(key);
  return fail(ErrorCode::kCorrupt, "[config] {}: {}: expected {}, but got {}", file_, printable(path_of(key)), expected,
              value == nullptr ? "nothing" : describe(*value));
}

Error ConfigObject::missing(std::string_view key, std::string_view expected) const {
  return fail(ErrorCode::kCorrupt, "[config] {}: {}: expected {}, but the key is missing", file_, printable(path_of(key)),
              expected);
}

Result<std::optional<int64_t>> ConfigObject::integer(std::string_view key, int64_t low, int64_t high) const {
  const json* value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  const Error error = unexpected(key, fmt::format("an integer from {} to {}", low, high));
  int64_t number = 0;
  if (value->is_number_unsigned()) {
    if (value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return error;
    number = static_cast<int64_t>(value->get<uint64_t>());
  } else if (value->is_number_integer()) {
    number = value->get<int64_t>();
  } else if (value->is_number_float()) {
    const double x = value->get<double>();
    if (x != std::floor(x) || std::fabs(x) > 0x1p53) return error;
    number = static_cast<int64_t>(x);
  } else {
    return error;
  }
  if (number < low || number > high) return error;
  return std::optional<int64_t>(number);
}

Result<std::optional<double>> ConfigObject::positive(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number() || !(value->get<double>() > 0) || !std::isfinite(value->get<double>())) {
    return unexpected(key, "a finite number above 0");
  }
  return std::optional<double>(value->get<double>());
}

Result<std::optional<bool>> ConfigObject::flag(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return unexpected(key, "true or false");
  return std::optional<bool>(value->get<bool>());
}

Result<std::optional<std::string>> ConfigObject::text(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return unexpected(key, "a string");
  return std::optional<std::string>(value->get<std::string>());
}

}  // namespace ropewalk
