// tokenizer.json from any bytes: it makes a tokenizer, or it is refused with a message. What is made encodes and decodes.
#include <string>

#include "formats/tokenizer/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ropewalk;
  TokenizerFiles files;
  files.folder = "fuzz";
  files.tokenizer.assign(reinterpret_cast<const char*>(data), size);
  // A second document, behind a NUL, is the configuration.
  if (const size_t end = files.tokenizer.find('\0'); end != std::string::npos) {
    files.config = files.tokenizer.substr(end + 1);
    files.tokenizer.resize(end);
  }
  const auto tokenizer = parse_tokenizer_json(files);
  if (!tokenizer) return tokenizer.error().message().empty() ? -1 : 0;
  for (const std::string& text : {std::string("the rope  12\n'll <s>\xC3\xA9\xFF"), files.tokenizer.substr(0, 200)}) {
    for (const bool special : {false, true}) {
      const auto ids = (*tokenizer)->encode(text, special);
      for (const int32_t id : ids) {
        if (id < 0 || id >= (*tokenizer)->size()) __builtin_trap();
      }
      (void)(*tokenizer)->decode(ids);
    }
  }
  return 0;
}
