#include "formats/printable.h"

#include <fmt/format.h>

namespace ropewalk {

std::string printable(std::string_view text) {
  constexpr size_t kLimit = 96;
  std::string out;
  for (size_t i = 0; i < text.size() && i < kLimit; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c >= 0x7f) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += text[i];
    }
  }
  if (text.size() > kLimit) out += fmt::format("... ({} bytes)", text.size());
  return out;
}

}  // namespace ropewalk
