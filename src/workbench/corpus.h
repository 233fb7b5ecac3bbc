// Texts as token ids, and the windows of them that are measured.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ropewalk/error.h"

namespace ropewalk {

struct Text {
  std::string name;          // where it came from, for people
  std::vector<int32_t> ids;  // without special tokens
  uint64_t hash = 0;         // of the ids
};

struct Corpus {
  std::vector<Text> texts;
  std::optional<int32_t> bos;  // present where the model's file asks for one: it is the first token of every window
};
Text make_text(std::string name, std::vector<int32_t> ids);

// Window w of length n of a text: tokens [w n, (w+1) n), or the first n-1 of them behind a BOS. It has n-1 scores.
struct Window {
  int text = 0;
  int64_t start = 0;   // w n
  int64_t length = 0;  // n, BOS included
  auto operator<=>(const Window&) const = default;
};
std::vector<int32_t> window_tokens(const Corpus& corpus, const Window& window);

// The windows of one length: `windows` a text at most (0 = all that fit).
struct WindowSet {
  int64_t asked = 0;   // the length that was asked for
  int64_t length = 0;  // the length that the texts allow: shorter only when none of them fills a window
  std::vector<Window> windows;
};
// One set a length, equal lengths merged, ascending; what had to give way is said in `notes`.
// Errors: kInvalidArgument when no text has the 2 tokens that one score needs, or a length is under 2; kNotFound without texts.
Result<std::vector<WindowSet>> make_windows(const Corpus& corpus, const std::vector<int64_t>& lengths, int64_t windows,
                                            std::vector<std::string>& notes);

}  // namespace ropewalk
