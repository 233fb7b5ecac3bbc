// Byte-pair encoding as a whole: special tokens, normalisation, words, merges. Serves GGUF files of kind gpt2 and
// tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/tokenizer/bpe_model.h"
#include "formats/tokenizer/special_matcher.h"
#include "formats/tokenizer/text_steps.h"
#include "formats/tokenizer/vocabulary.h"

namespace ropewalk {

// A piece that is recognised in the text before it is split into words.
struct AddedToken {
  int32_t id = -1;
  std::string text;
  bool special = false;      // only with parse_special
  bool normalized = false;   // looked for in the normalised text
  bool single_word = false;  // not inside a word
  bool strip_left = false;   // takes the white space before it along, which is then lost
  bool strip_right = false;
};

struct BpeParts {
  Vocabulary vocabulary;
  BpeOptions model;
  std::vector<NormalizeStep> normalizer;
  std::vector<SplitStep> splitter;
  std::vector<AddedToken> added;
  std::string space_symbol;  // written for a space in pieces; empty when pieces have plain text or bytes
};

std::unique_ptr<Tokenizer> make_bpe(BpeParts parts);

}  // namespace ropewalk
