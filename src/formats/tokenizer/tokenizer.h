// Text to token ids and back, as the model's own file says. Linear in the length of the text; right on any bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "ropewalk/error.h"

namespace ropewalk {

struct TokenizerInfo {
  std::string kind;  // "llama" (SentencePiece-style), "gpt2" (byte-level BPE)
  std::string pre;   // splitting pattern: "smollm", "qwen2", ...
  std::optional<int32_t> bos, eos, unknown, padding;
  bool add_bos = false;  // the file asks for a BOS before a text
  bool add_eos = false;
  std::string chat_template;  // as in the file; empty when it has none
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Ids of `text` without BOS/EOS. With `parse_special`, special tokens written out in the text become their ids (chat);
  // without, they are ordinary text. Any bytes are legal, invalid UTF-8 too.
  virtual std::vector<int32_t> encode(std::string_view text, bool parse_special = false) const = 0;
  // The bytes of a run of ids; ids out of range are skipped. decode(encode(text)) == text, up to what the file itself
  // normalises (SentencePiece's added leading space).
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  // The piece as the file writes it.
  virtual std::string piece(int32_t id) const = 0;
  virtual int32_t size() const = 0;
  virtual const TokenizerInfo& info() const = 0;
};

// Errors: kNotFound (no tokenizer in the file), kUnsupported (kind or splitting pattern: named), kCorrupt (key named).
Result<std::unique_ptr<Tokenizer>> make_tokenizer(const GgufFile& file);
// A Hugging Face folder with tokenizer.json (BPE) and tokenizer_config.json.
Result<std::unique_ptr<Tokenizer>> load_tokenizer_json(const std::string& folder);

}  // namespace ropewalk
