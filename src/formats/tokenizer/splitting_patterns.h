// How byte-level BPE cuts a text into words before merging: the patterns behind tokenizer.ggml.pre.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ropewalk {

// Regular expressions, applied one after another: each cuts every piece that the ones before left into its matches and what
// lies between them.
struct SplittingPattern {
  std::vector<std::string_view> names;  // of tokenizer.ggml.pre
  std::vector<std::string_view> stages;
  bool adds_bos = false;  // the models' tokenizer puts a BOS before a text; holds where the file does not say
  bool ignores_merges = false;
};

const SplittingPattern* find_splitting_pattern(std::string_view name);  // null: not known
std::string splitting_pattern_names();                                  // "default, gpt-2, ..."
bool adds_bos(std::string_view name);
bool ignores_merges(std::string_view name);

// The pattern of GPT-2, which ByteLevel in tokenizer.json means too.
std::string_view gpt2_splitting_pattern();

}  // namespace ropewalk
