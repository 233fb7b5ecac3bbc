#include "terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace ropewalk::app {
namespace {

// Columns on screen: UTF-8 continuation bytes and escape sequences take none.
size_t screen_width(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && text[i] != 'm') ++i;
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {
      ++width;
    }
  }
  return width;
}

bool is_numeric(std::string_view cell) { return !cell.empty() && (cell.find_first_of("0123456789.+-") == 0) && cell != "-"; }

}  // namespace

bool colour_wanted(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  if (term == nullptr || std::string_view(term) == "dumb") return false;
  return isatty(fileno(stream)) == 1;
}

std::string paint(Colour colour, std::string_view text) {
  static const bool wanted = colour_wanted(stdout);
  if (!wanted) return std::string(text);
  constexpr int kCodes[] = {1, 2, 31, 32, 33};
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<int>(colour)], text);
}

std::string short_number(double value) {
  constexpr const char* kSuffix[] = {"", "k", "M", "G", "T"};
  int power = 0;
  // 999.5 would print as 1000 with three digits.
  while (std::abs(value) >= 999.5 && power < 4) {
    value /= 1000;
    ++power;
  }
  return fmt::format("{:.{}f}{}", value, std::abs(value) >= 99.95 ? 0 : std::abs(value) >= 9.995 ? 1 : 2, kSuffix[power]);
}

std::string short_bytes(double bytes) {
  constexpr const char* kSuffix[] = {"bytes", "kB", "MB", "GB", "TB"};
  int power = 0;
  while (bytes >= 1024 && power < 4) {
    bytes /= 1024;
    ++power;
  }
  return fmt::format("{:.{}f} {}", bytes, power == 0 || bytes >= 99.95 ? 0 : 1, kSuffix[power]);
}

std::string short_time(double seconds) {
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string format_table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> width;
  std::vector<bool> right(header.size(), !rows.empty());
  for (size_t c = 0; c < header.size(); ++c) {
    width.push_back(screen_width(header[c]));
    for (const auto& row : rows) {
      width[c] = std::max(width[c], screen_width(row[c]));
      if (!row[c].empty() && row[c] != "-" && !is_numeric(row[c])) right[c] = false;
    }
  }
  std::string out;
  const auto add_row = [&](const std::vector<std::string>& row, bool is_header) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string fill(width[c] - screen_width(row[c]), ' ');
      const std::string cell = is_header ? paint(Colour::kBold, row[c]) : row[c];
      line += (c == 0 ? "" : "  ") + (right[c] ? fill + cell : cell + fill);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  add_row(header, true);
  for (const auto& row : rows) add_row(row, false);
  return out;
}

}  // namespace ropewalk::app
