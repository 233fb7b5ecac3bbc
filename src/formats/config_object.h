// Typed, ranged reads from one object of a config file. Internal to hf_config.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/fail.h"
#include "formats/json.h"

namespace ropewalk {

// A view of a JSON object and its key path. A key whose value is null counts as absent.
class ConfigObject {
 public:
  ConfigObject(const nlohmann::json& object, std::string file, std::string path)
      : object_(&object), file_(std::move(file)), path_(std::move(path)) {}

  const nlohmann::json& object() const { return *object_; }
  const std::string& file() const { return file_; }
  const std::string& path() const { return path_; }
  std::string path_of(std::string_view key) const { return path_.empty() ? std::string(key) : path_ + "." + std::string(key); }
  const nlohmann::json* find(std::string_view key) const;  // null when absent
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // "[config] FILE: PATH.KEY: expected EXPECTED, but got VALUE".
  Error unexpected(std::string_view key, std::string_view expected) const;
  Error missing(std::string_view key, std::string_view expected) const;

  // An integer may be written as a float (4096.0).
  Result<std::optional<int64_t>> integer(std::string_view key, int64_t low, int64_t high) const;
  Result<std::optional<double>> positive(std::string_view key) const;  // finite, above 0
  Result<std::optional<bool>> flag(std::string_view key) const;
  Result<std::optional<std::string>> text(std::string_view key) const;

 private:
  const nlohmann::json* object_;
  std::string file_, path_;
};

}  // namespace ropewalk
