// Unicode normalisation form C (UAX #15), which the tokenizer.json of Qwen and others asks for.
#pragma once

#include <string>
#include <string_view>

namespace ropewalk {

// `text` is valid UTF-8. Cost: linear, and n log n in a run of combining marks; text below U+0300 is only scanned.
std::string compose_nfc(std::string_view text);

}  // namespace ropewalk
