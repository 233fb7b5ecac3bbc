// What a terminal may be given: colour, a line that is drawn over, tables.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace ropewalk::app {

enum class Colour { kBold, kDim, kRed, kGreen, kYellow };

// On a terminal, and neither NO_COLOR (no-color.org) nor TERM=dumb.
bool colour_wanted(std::FILE* stream);
// `text` in `colour` where standard output wants it.
std::string paint(Colour colour, std::string_view text);

// "14.2k", "3.1M", "0.52": three significant digits.
std::string short_number(double value);
std::string short_bytes(double bytes);   // "1.5 GB", powers of 1024
std::string short_time(double seconds);  // "4.2 s", "3:05", "1:02:03"

// Columns as wide as their widest cell; numbers (cells that start with a digit, sign or dot) stand to the right. Each row must
// have as many cells as the header. Cells may hold colour: escape sequences count no width.
std::string format_table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

}  // namespace ropewalk::app
