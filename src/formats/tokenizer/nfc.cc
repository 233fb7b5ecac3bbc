#include "formats/tokenizer/nfc.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "formats/tokenizer/unicode.h"

namespace ropewalk {
namespace {

struct Decomposition {
  uint32_t code, first, second;
};
struct CombiningRange {
  uint32_t first, last;
  uint8_t combining_class;
};

#include "formats/tokenizer/nfc_tables.inc"

// Hangul syllables are composed by arithmetic (The Unicode Standard, section 3.12).
constexpr uint32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr uint32_t kLCount = 19, kVCount = 21, kTCount = 28, kSCount = kLCount * kVCount * kTCount;

struct Char {
  uint32_t code;
  uint8_t combining_class;
};

uint8_t combining_class(uint32_t code) {
  if (code < 0x300) return 0;
  const auto* range = std::upper_bound(std::begin(kCombining), std::end(kCombining), code,
                                       [](uint32_t c, const CombiningRange& r) { return c < r.first; });
  if (range == std::begin(kCombining)) return 0;
  --range;
  return code <= range->last ? range->combining_class : uint8_t{0};
}

const Decomposition* decomposition_of(uint32_t code) {
  const auto find = [code](const Decomposition* begin, const Decomposition* end) -> const Decomposition* {
    const auto* at = std::lower_bound(begin, end, code, [](const Decomposition& d, uint32_t c) { return d.code < c; });
    return at != end && at->code == code ? at : nullptr;
  };
  const Decomposition* found = find(std::begin(kComposites), std::end(kComposites));
  return found != nullptr ? found : find(std::begin(kDecomposeOnly), std::end(kDecomposeOnly));
}

void decompose(uint32_t code, std::vector<Char>& out) {
  if (code - kSBase < kSCount) {
    const uint32_t s = code - kSBase;
    out.push_back({kLBase + s / (kVCount * kTCount), 0});
    out.push_back({kVBase + s % (kVCount * kTCount) / kTCount, 0});
    if (s % kTCount != 0) out.push_back({kTBase + s % kTCount, 0});
    return;
  }
  const Decomposition* d = code < 0xC0 ? nullptr : decomposition_of(code);
  if (d == nullptr) {
    out.push_back({code, combining_class(code)});
    return;
  }
  decompose(d->first, out);  // at most four levels deep in Unicode's data
  if (d->second != 0) decompose(d->second, out);
}

uint32_t compose(uint32_t first, uint32_t second) {  // 0: they do not compose
  if (first - kLBase < kLCount && second - kVBase < kVCount) {
    return kSBase + ((first - kLBase) * kVCount + (second - kVBase)) * kTCount;
  }
  if (first - kSBase < kSCount && (first - kSBase) % kTCount == 0 && second > kTBase && second < kTBase + kTCount) {
    return first + (second - kTBase);
  }
  static const std::unordered_map<uint64_t, uint32_t> pairs = [] {
    std::unordered_map<uint64_t, uint32_t> map;
    for (const Decomposition& d : kComposites) map[(uint64_t{d.first} << 32) | d.second] = d.code;
    return map;
  }();
  const auto found = pairs.find((uint64_t{first} << 32) | second);
  return found == pairs.end() ? 0 : found->second;
}

void order_marks(std::vector<Char>& chars) {
  for (auto begin = chars.begin(); begin != chars.end();) {
    if (begin->combining_class == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, chars.end(), [](const Char& c) { return c.combining_class == 0; });
    std::stable_sort(begin, end, [](const Char& a, const Char& b) { return a.combining_class < b.combining_class; });
    begin = end;
  }
}

void compose_in_place(std::vector<Char>& chars) {
  size_t out = 0;
  size_t starter = chars.size();  // of the characters written so far
  for (const Char c : chars) {
    // Blocked: something of the same or a higher class, or a starter, stands between (UAX #15, D115).
    const bool blocked =
        starter >= out ||
        (out > starter + 1 && (chars[out - 1].combining_class >= c.combining_class || chars[out - 1].combining_class == 0));
    if (!blocked) {
      if (const uint32_t composed = compose(chars[starter].code, c.code); composed != 0) {
        chars[starter].code = composed;
        continue;
      }
    }
    if (c.combining_class == 0) starter = out;
    chars[out++] = c;
  }
  chars.resize(out);
}

}  // namespace

std::string compose_nfc(std::string_view text) {
  bool plain = true;  // every byte below 0xCC: characters below U+0300, which NFC leaves as they are
  for (const char c : text) plain = plain && static_cast<uint8_t>(c) < 0xCC;
  if (plain) return std::string(text);
  std::vector<Char> chars;
  chars.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_at(text, at);
    decompose(c.code, chars);
    at += c.bytes;
  }
  order_marks(chars);
  compose_in_place(chars);
  std::string out;
  out.reserve(text.size());
  for (const Char& c : chars) append_utf8(out, c.code);
  return out;
}

}  // namespace ropewalk
