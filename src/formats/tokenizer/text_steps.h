// What happens to a text before the merges: normalisation, and splitting into words. Steps are data, read from tokenizer.json
// or made from a splitting pattern.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/tokenizer/regex.h"

namespace ropewalk {

// ---- normalisation: string to string
struct Prepend {  // unless the text is empty
  std::string text;
};
struct Replace {  // every match
  Regex pattern;
  std::string content;
};
struct ComposeNfc {};  // Unicode normalisation form C
using NormalizeStep = std::variant<Prepend, Replace, ComposeNfc>;

// ---- splitting: list of words to list of words
enum class SplitBehaviour { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
struct Split {
  Regex pattern;
  SplitBehaviour behaviour = SplitBehaviour::kIsolated;
  bool invert = false;  // what lies between matches counts as the match
};
struct AddSpace {};  // a space before a word that has none (ByteLevel's add_prefix_space)
enum class PrependWhen { kAlways, kFirst, kNever };
struct Metaspace {  // spaces become `replacement`, and each begins a word
  std::string replacement;
  PrependWhen prepend = PrependWhen::kAlways;
  bool split = true;
};
using SplitStep = std::variant<Split, AddSpace, Metaspace>;

// Words of one text. Views point into the text that was split, or into `made`.
struct Words {
  std::vector<std::string_view> list;
  std::vector<std::string_view> next;  // scratch
  std::deque<std::string> made;        // grows with every text that is split; cleared by the caller
  Regex::Scratch scratch;
};

// `text` is valid UTF-8 in both. `at_start`: it stands at the very start of what the caller was given.
std::string normalize(const std::vector<NormalizeStep>& steps, std::string_view text, Regex::Scratch& scratch);
// words.list = the words of `text`, none empty; linear in the text for the built-in patterns.
void split_words(const std::vector<SplitStep>& steps, std::string_view text, bool at_start, Words& words);

}  // namespace ropewalk
