#include "formats/tokenizer/unicode.h"

#include <cstring>

namespace ropewalk {
namespace {

struct Lead {
  uint32_t bytes = 0;  // 0: no sequence starts with this byte
  uint8_t low = 0x80;  // range of the second byte: it alone rules out overlong forms, surrogates and > U+10FFFF
  uint8_t high = 0xBF;
};

Lead lead_of(uint8_t byte) noexcept {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

uint8_t byte_at(std::string_view text, size_t at) noexcept { return static_cast<uint8_t>(text[at]); }

// Bytes at the end of `text` that are a proper prefix of a well-formed sequence.
size_t incomplete_tail(std::string_view text) noexcept {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const size_t at = text.size() - back;
    const uint8_t byte = byte_at(text, at);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;  // a continuation byte: the lead is further left
    const Lead lead = lead_of(byte);
    if (lead.bytes <= back) return 0;
    if (back >= 2 && (byte_at(text, at + 1) < lead.low || byte_at(text, at + 1) > lead.high)) return 0;
    return back;
  }
  return 0;
}

}  // namespace

Utf8Char utf8_at(std::string_view text, size_t at) noexcept {
  const uint8_t first = byte_at(text, at);
  if (first < 0x80) return {first, 1};
  const Utf8Char invalid{Utf8Char::kInvalidByte + first, 1};
  const Lead lead = lead_of(first);
  if (lead.bytes == 0 || text.size() - at < lead.bytes) return invalid;
  uint32_t code = first & (0x7FU >> lead.bytes);
  for (uint32_t i = 1; i < lead.bytes; ++i) {
    const uint8_t byte = byte_at(text, at + i);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return invalid;
    code = (code << 6) | (byte & 0x3FU);
  }
  return {code, lead.bytes};
}

size_t utf8_run(std::string_view text, size_t from, bool valid) noexcept {
  size_t at = from;
  while (at < text.size()) {
    if (valid && text.size() - at >= 8) {  // eight ASCII bytes at a time
      uint64_t word;
      std::memcpy(&word, text.data() + at, 8);
      if ((word & 0x8080808080808080U) == 0) {
        at += 8;
        continue;
      }
    }
    const Utf8Char c = utf8_at(text, at);
    if (c.valid() != valid) break;
    at += c.bytes;
  }
  return at - from;
}

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&out](uint32_t byte) { out += static_cast<char>(static_cast<uint8_t>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

bool is_white_space(uint32_t code) noexcept {
  return (code >= 0x9 && code <= 0xD) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

std::string Utf8Stream::push(std::string_view bytes) {
  std::string out = std::move(held_);
  out += bytes;
  const size_t tail = incomplete_tail(out);
  held_ = out.substr(out.size() - tail);
  out.resize(out.size() - tail);
  return out;
}

std::string Utf8Stream::finish() {
  std::string out = std::move(held_);
  held_.clear();
  return out;
}

}  // namespace ropewalk
