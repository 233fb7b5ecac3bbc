// UTF-8, for text that may hold anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ropewalk {

// A character of a text: its code point, or kInvalidByte + the byte where no well-formed sequence starts.
struct Utf8Char {
  static constexpr uint32_t kInvalidByte = 0x110000;
  uint32_t code = 0;
  uint32_t bytes = 0;  // 1 to 4; an invalid byte stands alone
  bool valid() const noexcept { return code < kInvalidByte; }
};

// The character at text[at]; at < text.size(). Well-formed as in the Unicode Standard, table 3-7: no overlong forms,
// surrogates, or values past U+10FFFF.
Utf8Char utf8_at(std::string_view text, size_t at) noexcept;

// The length of the longest prefix of text.substr(from) in which every character is valid (or, with `valid` false, none is).
size_t utf8_run(std::string_view text, size_t from, bool valid) noexcept;

void append_utf8(std::string& out, uint32_t code);

// Unicode White_Space: what \s means in the regular expressions of tokenizers.
bool is_white_space(uint32_t code) noexcept;

// Text that arrives in pieces which may end inside a character (byte tokens do): push returns what is complete, so a terminal
// never sees half a character. Bytes that can no longer become a valid character pass through as they are; nothing is lost.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  std::string finish();  // what is held back, at the end of the text

 private:
  std::string held_;  // at most 3 bytes: a proper prefix of a well-formed sequence
};

}  // namespace ropewalk
