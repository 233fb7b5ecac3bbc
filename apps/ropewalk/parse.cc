// Values on the command line: lengths, times, sizes.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/fail.h"
#include "command.h"

namespace ropewalk::app {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

struct Unit {
  std::string_view suffix;
  int64_t factor;
};

// digits and one of `units`; false on junk, a sign, zero or overflow.
bool parse_scaled(const std::string& text, std::initializer_list<Unit> units, int64_t& value) {
  uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc{} || count == 0) return false;
  const std::string suffix = lower({rest, static_cast<size_t>(end - rest)});
  for (const Unit& unit : units) {
    if (suffix != unit.suffix) continue;
    if (count > static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / unit.factor)) return false;
    value = static_cast<int64_t>(count) * unit.factor;
    return true;
  }
  return false;
}

Error bad_value(const std::string& flag, std::string_view expected, const std::string& text) {
  return fail(ErrorCode::kInvalidArgument, "[command line] {}: expected {}, but got '{}'", flag, expected, text);
}

template <class Parse>
CLI::Option* add_parsed(CLI::App& command, const std::string& flag, const std::string& help, const char* type, Parse parse) {
  const std::string name = flag.substr(0, flag.find(','));
  return command
      .add_option_function<std::string>(
          flag, [parse, name](const std::string& text) { parse(text, name); }, help)
      ->type_name(type);
}

}  // namespace

Result<int64_t> parse_length(const std::string& text, const std::string& flag) {
  int64_t value = 0;
  if (parse_scaled(text, {{"", 1}, {"k", int64_t{1} << 10}, {"m", int64_t{1} << 20}}, value)) return value;
  return bad_value(flag, "a length such as 8192, 8k or 1m", text);
}

Result<std::vector<int64_t>> parse_lengths(const std::string& list, const std::string& flag) {
  std::vector<int64_t> values;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t comma = std::min(list.find(',', begin), list.size());
    ROPEWALK_TRY(const int64_t value, parse_length(list.substr(begin, comma - begin), flag));
    values.push_back(value);
    begin = comma + 1;
  }
  return values;
}

Result<double> parse_seconds(const std::string& text, const std::string& flag) {
  const Error error = bad_value(flag, "a time such as 90s, 10m or 2h", text);
  double count = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, count, std::chars_format::fixed);
  if (problem != std::errc{} || !std::isfinite(count) || count <= 0) return error;
  const std::string suffix = lower({rest, static_cast<size_t>(end - rest)});
  double factor = 1;
  if (suffix == "m" || suffix == "min")
    factor = 60;
  else if (suffix == "h")
    factor = 3600;
  else if (!suffix.empty() && suffix != "s")
    return error;
  // A year is beyond any run, and keeps sums of times far from overflow.
  if (count * factor > 366.0 * 86400) return error;
  return count * factor;
}

Result<int64_t> parse_bytes(const std::string& text, const std::string& flag) {
  constexpr int64_t kKib = int64_t{1} << 10, kMib = int64_t{1} << 20, kGib = int64_t{1} << 30, kTib = int64_t{1} << 40;
  int64_t value = 0;
  if (parse_scaled(text, {{"", 1}, {"b", 1}, {"kb", kKib}, {"mb", kMib}, {"gb", kGib}, {"tb", kTib}}, value)) return value;
  return bad_value(flag, "a size such as 512mb or 4gb", text);
}

Result<int64_t> parse_integer(const std::string& text, int64_t low, int64_t high, const std::string& flag) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc{} && rest == end && low <= value && value <= high) return value;
  return bad_value(flag, fmt::format("a whole number from {} to {}", low, high), text);
}

void throw_usage(const Error& error) { throw CLI::ValidationError(error.message()); }

CLI::Option* add_length(CLI::App& command, const std::string& flag, int64_t& value, const std::string& help) {
  return add_parsed(command, flag, help, "N",
                    [&value](const std::string& text, const std::string& name) { value = or_usage(parse_length(text, name)); });
}

CLI::Option* add_lengths(CLI::App& command, const std::string& flag, std::vector<int64_t>& values, const std::string& help) {
  return add_parsed(command, flag, help, "N,N,..", [&values](const std::string& text, const std::string& name) {
    values = or_usage(parse_lengths(text, name));
  });
}

CLI::Option* add_seconds(CLI::App& command, const std::string& flag, double& value, const std::string& help) {
  return add_parsed(command, flag, help, "TIME", [&value](const std::string& text, const std::string& name) {
    value = or_usage(parse_seconds(text, name));
  });
}

CLI::Option* add_bytes(CLI::App& command, const std::string& flag, int64_t& value, const std::string& help) {
  return add_parsed(command, flag, help, "SIZE",
                    [&value](const std::string& text, const std::string& name) { value = or_usage(parse_bytes(text, name)); });
}

CLI::Option* add_integer(CLI::App& command, const std::string& flag, int64_t& value, int64_t low, int64_t high,
                         const std::string& help) {
  return add_parsed(command, flag, help, "N", [&value, low, high](const std::string& text, const std::string& name) {
    value = or_usage(parse_integer(text, low, high, name));
  });
}

}  // namespace ropewalk::app
