#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/fail.h"
#include "formats/gguf.h"
#include "formats/printable.h"

namespace ropewalk {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 40;  // no width or length in a model comes near; products stay below 2^63

// Keys of one architecture: "llama.rope.freq_base" for the name "rope.freq_base".
class PositionKeys {
 public:
  PositionKeys(const GgufFile& file, const std::string& architecture) : file_(file), prefix_(architecture + ".") {}

  const GgufValue* find(std::string_view name) const { return file_.find_key(prefix_ + std::string(name)); }

  Error unexpected(const GgufValue& entry, std::string_view expected) const {
    return fail(ErrorCode::kCorrupt, "[gguf] {}: byte {}: key {}: expected {}, but got {}", file_.path(), entry.offset,
                printable(entry.key), expected, describe(entry));
  }

  // Present: a finite number within [low, high], or (low, high] where `above`.
  Result<void> number(std::string_view name, double low, bool above, double high, std::string_view expected) const {
    const GgufValue* entry = find(name);
    if (entry == nullptr) return {};
    const std::optional<double> value = as_number(*entry);
    const bool good = value && std::isfinite(*value) && (above ? *value > low : *value >= low) && *value <= high;
    return good ? Result<void>() : Result<void>(unexpected(*entry, expected));
  }

  // Present: an integer of at least `low`. 0 when absent.
  Result<int64_t> count(std::string_view name, int64_t low) const {
    const GgufValue* entry = find(name);
    if (entry == nullptr) return 0;
    const std::optional<int64_t> value = as_integer(*entry);
    if (!value || *value < low || *value > kMaxCount)
      return unexpected(*entry, fmt::format("an integer from {} to {}", low, kMaxCount));
    return *value;
  }

  // A count, or an array with one for each layer (0 allowed there: a layer without attention). The largest; 0 when absent.
  Result<int64_t> count_per_layer(std::string_view name) const {
    const GgufValue* entry = find(name);
    const auto* array = entry == nullptr ? nullptr : std::get_if<GgufValue::Array>(&entry->value);
    if (array == nullptr) return count(name, 1);
    int64_t largest = 0;
    const auto take = [&](const auto& values) {
      for (const auto value : values) {
        const auto wide = static_cast<int64_t>(value);
        if (wide < 0 || wide > kMaxCount) return false;
        largest = std::max(largest, wide);
      }
      return true;
    };
    const auto* unsigned_values = std::get_if<std::vector<uint64_t>>(array);
    const auto* signed_values = std::get_if<std::vector<int64_t>>(array);
    const bool good =
        (unsigned_values != nullptr && take(*unsigned_values)) || (signed_values != nullptr && take(*signed_values));
    if (!good || largest == 0) return unexpected(*entry, "counts that are not negative, at least one of them above 0");
    return largest;
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

Result<void> check_numbers(const PositionKeys& keys) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const char* name :
       {"rope.freq_base", "rope.freq_base_swa", "rope.scale_linear", "rope.scaling.factor", "rope.scaling.attn_factor",
        "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"}) {
    ROPEWALK_CHECK_OK(keys.number(name, 0, true, kInfinity, "a finite number above 0"));
  }
  // The weight of the ramp against plain interpolation.
  ROPEWALK_CHECK_OK(keys.number("rope.scaling.yarn_ext_factor", 0, false, 1, "a number from 0 to 1"));
  ROPEWALK_CHECK_OK(keys.number("rope.scaling.yarn_log_multiplier", 0, false, kInfinity, "a finite number of at least 0"));
  return {};
}

// A head has key_length dims where that is given, else its share of the width.
Result<void> check_widths(const PositionKeys& keys) {
  ROPEWALK_TRY(const int64_t width, keys.count("embedding_length", 1));
  ROPEWALK_TRY(const int64_t heads, keys.count_per_layer("attention.head_count"));
  ROPEWALK_TRY([[maybe_unused]] const int64_t kv_heads, keys.count_per_layer("attention.head_count_kv"));
  ROPEWALK_TRY(const int64_t key_length, keys.count("attention.key_length", 1));
  const GgufValue* heads_entry = keys.find("attention.head_count");
  if (key_length == 0 && width > 0 && heads > width)
    return keys.unexpected(*heads_entry, fmt::format("at most one head a dim of width {}", width));
  const GgufValue* kv_entry = keys.find("attention.head_count_kv");
  if (kv_entry != nullptr && heads_entry != nullptr && as_integer(*kv_entry) && as_integer(*heads_entry) &&
      heads % kv_heads != 0) {
    return keys.unexpected(*kv_entry, fmt::format("a divisor of the {} heads", heads));
  }
  const int64_t head_dim = key_length > 0 ? key_length : (width > 0 && heads > 0 ? width / heads : 0);
  ROPEWALK_TRY(const int64_t rotated, keys.count("rope.dimension_count", 1));
  const GgufValue* entry = keys.find("rope.dimension_count");
  if (rotated % 2 != 0) return keys.unexpected(*entry, "an even number of rotated dims");
  if (head_dim > 0 && rotated > head_dim) {
    return keys.unexpected(*entry,
                           fmt::format("at most the {} dims of a head ({})", head_dim,
                                       key_length > 0 ? std::string("attention.key_length")
                                                      : fmt::format("embedding_length {} / head_count {}", width, heads)));
  }
  return {};
}

}  // namespace

Result<void> validate_position_keys(const GgufFile& file) {
  if (!file.has("general.architecture")) return {};
  ROPEWALK_TRY(const std::string architecture, file.text("general.architecture"));
  const PositionKeys keys(file, architecture);
  ROPEWALK_CHECK_OK(check_numbers(keys));
  for (const char* name : {"context_length", "block_count", "rope.scaling.original_context_length"}) {
    ROPEWALK_TRY([[maybe_unused]] const int64_t value, keys.count(name, 1));
  }
  return check_widths(keys);
}

}  // namespace ropewalk
