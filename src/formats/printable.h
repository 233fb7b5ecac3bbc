// Names out of hostile files, fit for a message: at most `limit` bytes of it, every byte that is not printable ASCII
// written as \xNN.
#pragma once

#include <string>
#include <string_view>

namespace ropewalk {

std::string printable(std::string_view text, size_t limit = 96);

}  // namespace ropewalk
