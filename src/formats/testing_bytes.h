// For the tests of the readers: bytes from hex, GGUF files built field by field, temporary folders, and what a refusal must
// say.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"

namespace ropewalk::testing {

inline std::string from_hex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The message holds `name` as a whole word, in any case: "0" is not found in "10".
inline bool mentions(const std::string& message, const std::string& name) {
  const std::string text = lower(message);
  const std::string word = lower(name);
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool left = at == 0 || !is_word(text[at - 1]) || !is_word(word.front());
    const bool right = at + word.size() == text.size() || !is_word(text[at + word.size()]) || !is_word(word.back());
    if (left && right) return true;
  }
  return false;
}

// A file that must be refused: what the message names, and the byte of the offending field (-1: any).
struct BadFile {
  std::string hex;
  std::vector<std::string> names;
  int64_t at_byte = -1;
};

template <class Result>
void expect_error_names(const Result& result, const std::vector<std::string>& names, int64_t at_byte = -1) {
  ASSERT_FALSE(result.has_value());
  const std::string message = result.error().message();
  for (const std::string& name : names) EXPECT_TRUE(mentions(message, name)) << '"' << name << "\" is not in: " << message;
  if (at_byte >= 0) {
    EXPECT_NE(message.find("byte " + std::to_string(at_byte) + ":"), std::string::npos) << at_byte << " is not in: " << message;
  }
}

// A GGUF file, little endian.
class GgufBuilder {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;

  template <class T>
  static std::string raw(T value) {
    std::string out(sizeof(T), '\0');
    std::memcpy(out.data(), &value, sizeof(T));
    return out;
  }
  static std::string string(std::string_view text) { return raw<uint64_t>(text.size()) + std::string(text); }

  GgufBuilder& key(std::string_view name, uint32_t type, const std::string& value) {
    keys_ += string(name) + raw(type) + value;
    ++key_count_;
    return *this;
  }
  GgufBuilder& u32(std::string_view name, uint32_t value) { return key(name, 4, raw(value)); }
  GgufBuilder& u16(std::string_view name, uint16_t value) { return key(name, 2, raw(value)); }
  GgufBuilder& i32(std::string_view name, int32_t value) { return key(name, 5, raw(value)); }
  GgufBuilder& f32(std::string_view name, float value) { return key(name, 6, raw(value)); }
  GgufBuilder& text(std::string_view name, std::string_view value) { return key(name, 8, string(value)); }
  template <class T>
  GgufBuilder& array(std::string_view name, uint32_t type, const std::vector<T>& values) {
    std::string bytes = raw(type) + raw<uint64_t>(values.size());
    for (const T value : values) bytes += raw(value);
    return key(name, 9, bytes);
  }
  // Dims innermost first; the data is placed after what there is.
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, const std::string& data) {
    while (data_.size() % alignment != 0) data_ += '\0';
    entries_ += string(name) + raw<uint32_t>(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) entries_ += raw(dim);
    entries_ += raw(type) + raw<uint64_t>(data_.size());
    data_ += data;
    ++tensor_count_;
    return *this;
  }
  std::string build() const {
    std::string out = "GGUF" + raw(version) + raw(tensor_count_) + raw(key_count_) + keys_ + entries_;
    while (out.size() % alignment != 0) out += '\0';
    return out + data_;
  }

 private:
  uint64_t key_count_ = 0, tensor_count_ = 0;
  std::string keys_, entries_, data_;
};

}  // namespace ropewalk::testing
