#include "encodings/registry.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <optional>

#include "base/fail.h"
#include "base/random.h"
#include "encodings/rope/settings_grammar.h"

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

// "1e6", "-2", "8k".
std::optional<double> parse_number(std::string_view text) {
  if (const auto count = settings::parse_count(text)) return static_cast<double>(*count);
  return settings::parse_number(text);
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
    const auto value = parse_number(field.substr(equals + 1));
    if (!value || *value < parameter->low || *value > parameter->high || (parameter->whole && *value != std::floor(*value))) {
      return fail(ErrorCode::kInvalidArgument, "[encoding] {}: {}: expected {} from {} to {}, but got '{}'", info.name, name,
                  parameter->whole ? "a whole number" : "a number", parameter->low, parameter->high, field.substr(equals + 1));
    }
    arguments.set(parameter->name, *value);
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

Result<void> check_given(const std::string& encoding, const EncodingWeight& table, const EncodingWeight& given) {
  if (given.shape != table.shape || static_cast<int64_t>(given.values.size()) != elements(given.shape)) {
    return fail(ErrorCode::kInvalidArgument, "[encoding] {}: {}: expected shape {}, but got {} with {} values", encoding,
                given.name, shape_text(table.shape), shape_text(given.shape), given.values.size());
  }
  for (const float value : given.values) {
    if (!std::isfinite(value))
      return fail(ErrorCode::kInvalidArgument, "[encoding] {}: {}: expected finite values, but got {}", encoding, given.name,
                  value);
  }
  return {};
}

// Each from a stream of its own, so that one table does not depend on another's size. Errors: kTooLarge.
Result<void> draw(const EncodingEntry& entry, uint64_t seed, uint64_t stream, EncodingWeight& table) {
  constexpr int64_t kMost = int64_t{1} << 28;  // 1 GB
  const int64_t count = elements(table.shape);
  if (count > kMost) {
    return fail(ErrorCode::kTooLarge, "[encoding] {}: {}: expected at most {} elements to draw, but got shape {}",
                entry.info.name, table.name, kMost, shape_text(table.shape));
  }
  try {
    table.values.resize(static_cast<size_t>(count));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLarge, "[encoding] {}: {}: no memory for shape {}", entry.info.name, table.name,
                shape_text(table.shape));
  }
  Random random(seed, stream);
  for (int64_t i = 0; i < count; ++i) {
    const double x = random.normal();
    table.values[static_cast<size_t>(i)] = static_cast<float>(entry.initial != nullptr ? entry.initial(table.name, x) : x);
  }
  return {};
}

// The tables, as given or, where absent, drawn.
Result<std::vector<EncodingWeight>> tables_of(const Use& use, const EncodingContext& context,
                                              std::span<const EncodingWeight> weights) {
  const std::string& name = use.entry->info.name;
  std::vector<EncodingWeight> tables;
  if (use.entry->shapes != nullptr) tables = use.entry->shapes(use.arguments, context);
  for (const EncodingWeight& given : weights) {
    if (std::none_of(tables.begin(), tables.end(), [&](const EncodingWeight& t) { return t.name == given.name; }))
      return fail(ErrorCode::kInvalidArgument, "[encoding] {}: there is no weight '{}'", name, given.name);
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    const auto given =
        std::find_if(weights.begin(), weights.end(), [&](const EncodingWeight& w) { return w.name == tables[i].name; });
    if (given == weights.end()) {
      ROPEWALK_CHECK_OK(draw(*use.entry, context.seed, i + 1, tables[i]));
    } else {
      ROPEWALK_CHECK_OK(check_given(name, tables[i], *given));
      tables[i] = *given;
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
  ROPEWALK_TRY(std::vector<EncodingWeight> tables, tables_of(use, context, weights));
  return use.entry->make(use.arguments, context, EncodingTables(std::move(tables)));
}

Result<std::vector<EncodingWeight>> encoding_weights(std::string_view text, const EncodingContext& context) {
  ROPEWALK_TRY(const Use use, parse_use(text, context));
  return tables_of(use, context, {});
}

}  // namespace ropewalk
