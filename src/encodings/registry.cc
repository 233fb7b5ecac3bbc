#include "encodings/registry.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/fail.h"
#include "base/random.h"

namespace ropewalk {
namespace {

std::span<const EncodingEntry* const> entries() {
  static const std::vector<const EncodingEntry*> all = {
#define ROPEWALK_ENCODING(name) &encoding_##name(),
#include "encodings/registry.inc"
#undef ROPEWALK_ENCODING
  };
  return all;
}

Result<const EncodingEntry*> find_entry(std::string_view name) {
  std::string known;
  for (const EncodingEntry* entry : entries()) {
    if (entry->info.name == name) return entry;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", entry->info.name);
  }
  return fail(ErrorCode::kNotFound, "[encoding] expected one of {}, but got '{}'", known, name);
}

// 1e6, 8k: a finite number, k and m as powers of 1024.
bool parse_number(std::string_view text, double& value) {
  double unit = 1;
  if (text.ends_with('k')) unit = 1024;
  if (text.ends_with('m')) unit = 1024 * 1024;
  if (unit != 1) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  value *= unit;
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
}

Result<EncodingArguments> parse_arguments(const EncodingInfo& info, std::string_view rest) {
  EncodingArguments arguments;
  if (!info.text.empty()) {
    arguments.set_text(rest.empty() ? info.text_value : rest);
    return arguments;
  }
  for (const EncodingParameter& parameter : info.parameters) arguments.set(parameter.name, parameter.value);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string_view field = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = field.find('=');
    const std::string_view name = field.substr(0, equals);
    const auto parameter = std::find_if(info.parameters.begin(), info.parameters.end(),
                                        [&](const EncodingParameter& p) { return p.name == name; });
    if (equals == std::string_view::npos || parameter == info.parameters.end()) {
      std::string known;
      for (const EncodingParameter& p : info.parameters) known += fmt::format("{}{}=", known.empty() ? "" : ", ", p.name);
      return fail(ErrorCode::kInvalidArgument, "[encoding] {}: expected {}, but got '{}'", info.name,
                  known.empty() ? "no parameters" : fmt::format("parameters of {}", known), field);
    }
    double value = 0;
    const bool good = parse_number(field.substr(equals + 1), value) && value >= parameter->low && value <= parameter->high &&
                      (!parameter->whole || value == std::floor(value));
    if (!good) {
      return fail(ErrorCode::kInvalidArgument, "[encoding] {}: {}: expected {} from {} to {}, but got '{}'", info.name, name,
                  parameter->whole ? "a whole number" : "a number", parameter->low, parameter->high, field.substr(equals + 1));
    }
    arguments.set(parameter->name, value);
  }
  return arguments;
}

struct Use {
  const EncodingEntry* entry;
  EncodingArguments arguments;
};

Result<Use> parse_use(std::string_view text, const EncodingContext& context) {
  const size_t end = std::min(text.find(':'), text.size());
  ROPEWALK_TRY(const EncodingEntry* entry, find_entry(text.substr(0, end)));
  ROPEWALK_TRY(EncodingArguments arguments, parse_arguments(entry->info, text.substr(std::min(end + 1, text.size()))));
  const auto within = [&](std::string_view what, int64_t value, int64_t high) -> Result<void> {
    if (value >= 1 && value <= high) return {};
    return fail(ErrorCode::kInvalidArgument, "[encoding] {}: {}: expected 1 to {}, but got {}", entry->info.name, what, high,
                value);
  };
  ROPEWALK_CHECK_OK(within("heads", context.heads, 1 << 16));
  ROPEWALK_CHECK_OK(within("head_dim", context.head_dim, 512));
  ROPEWALK_CHECK_OK(within("width", context.width, 1 << 24));
  ROPEWALK_CHECK_OK(within("trained", context.trained, int64_t{1} << 31));
  return Use{entry, std::move(arguments)};
}

int64_t elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += fmt::format("{}{}", text.size() > 1 ? ", " : "", size);
  return text + "]";
}

// The tables with values: drawn, each from a stream of its own, so that one does not depend on another's size.
Result<std::vector<EncodingWeight>> draw(const Use& use, const EncodingContext& context) {
  std::vector<EncodingWeight> tables;
  if (use.entry->shapes != nullptr) tables = use.entry->shapes(use.arguments, context);
  uint64_t stream = 0;
  for (EncodingWeight& table : tables) {
    const int64_t count = elements(table.shape);
    if (count > (int64_t{1} << 32))
      return fail(ErrorCode::kTooLarge, "[encoding] {}: {}: a table of {} elements is too large", use.entry->info.name,
                  table.name, count);
    Random random(context.seed, ++stream);
    table.values.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const double x = random.normal();
      table.values[static_cast<size_t>(i)] =
          static_cast<float>(use.entry->initial != nullptr ? use.entry->initial(table.name, i, x) : x);
    }
  }
  return tables;
}

}  // namespace

const std::vector<float>& EncodingTables::operator[](std::string_view name) const {
  return std::find_if(weights_.begin(), weights_.end(), [&](const EncodingWeight& w) { return w.name == name; })->values;
}

std::span<const EncodingInfo> encodings() {
  static const std::vector<EncodingInfo> all = [] {
    std::vector<EncodingInfo> list;
    for (const EncodingEntry* entry : entries()) list.push_back(entry->info);
    return list;
  }();
  return all;
}

const EncodingInfo* find_encoding(std::string_view name) {
  const auto all = encodings();
  const auto found = std::find_if(all.begin(), all.end(), [&](const EncodingInfo& info) { return info.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Result<PositionEncoding> make_encoding(std::string_view text, const EncodingContext& context,
                                       std::span<const EncodingWeight> weights) {
  ROPEWALK_TRY(const Use use, parse_use(text, context));
  ROPEWALK_TRY(std::vector<EncodingWeight> tables, draw(use, context));
  const std::string& name = use.entry->info.name;
  for (const EncodingWeight& given : weights) {
    const auto table =
        std::find_if(tables.begin(), tables.end(), [&](const EncodingWeight& t) { return t.name == given.name; });
    if (table == tables.end())
      return fail(ErrorCode::kInvalidArgument, "[encoding] {}: there is no weight '{}'", name, given.name);
    if (given.shape != table->shape || static_cast<int64_t>(given.values.size()) != elements(given.shape)) {
      return fail(ErrorCode::kInvalidArgument, "[encoding] {}: {}: expected shape {}, but got {} with {} values", name,
                  given.name, shape_text(table->shape), shape_text(given.shape), given.values.size());
    }
    for (const float value : given.values) {
      if (!std::isfinite(value))
        return fail(ErrorCode::kInvalidArgument, "[encoding] {}: {}: expected finite values, but got {}", name, given.name,
                    value);
    }
    *table = given;
  }
  return use.entry->make(use.arguments, context, EncodingTables(std::move(tables)));
}

Result<std::vector<EncodingWeight>> encoding_weights(std::string_view text, const EncodingContext& context) {
  ROPEWALK_TRY(const Use use, parse_use(text, context));
  return draw(use, context);
}

}  // namespace ropewalk
