#include "engine/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "base/fail.h"
#include "engine/weights.h"

namespace ropewalk {
namespace {

Error in_file(const std::string& where, const Error& error) {
  return Error(error.code(), fmt::format("[engine] {}: {}", where, error.message()));
}

Result<RotarySchedule> scaled(const RopeScaling& s, RotarySchedule schedule, int64_t original, int64_t length) {
  const double factor = s.factor.value_or(1);
  if (s.rule == "linear") return scale_linear(std::move(schedule), factor);
  if (s.rule == "ntk") return scale_ntk(std::move(schedule), factor);
  if (s.rule == "yarn") {
    YarnParams params = s.yarn;
    params.factor = factor;
    return scale_yarn(std::move(schedule), params, original);
  }
  if (s.rule == "llama3") {
    Llama3Params params = s.llama3;
    params.factor = factor;
    return scale_llama3(std::move(schedule), params, original);
  }
  if (s.rule == "longrope") return scale_longrope(std::move(schedule), s.longrope, original, length);
  return schedule;  // none; dynamic follows the sequence and is applied as a setting (ModelSpec::file_rule)
}

}  // namespace

Result<void> set_rotation(const RopeScaling& s, int head_dim, int64_t length, const std::string& where, LayerPosition& layer) {
  auto plain = make_rotary_schedule(s.theta, s.rotary_dim, head_dim, s.pairing);
  if (!plain) return in_file(where, plain.error());
  layer.rotary_plain = *plain;
  RotarySchedule base = *plain;
  if (!s.divisors.empty()) {
    auto divided = scale_factors(base, s.divisors);
    if (!divided) return in_file(where, divided.error());
    base = *std::move(divided);
  }
  const int64_t original = s.original > 0 ? s.original : length;
  // Up to the original length LongRoPE takes its short list; one token more, the long one.
  auto trained = scaled(s, base, original, original);
  if (!trained) return in_file(where, trained.error());
  trained->amplitude *= s.amplitude;
  layer.rotary = *std::move(trained);
  if (s.rule == "longrope") {
    auto longer = scaled(s, base, original, original + 1);
    if (!longer) return in_file(where, longer.error());
    longer->amplitude *= s.amplitude;
    layer.rotary_long = *std::move(longer);
  }
  return {};
}

void set_contexts(const RopeScaling& s, int64_t stated, ModelSpec& spec) {
  spec.context_original = s.original > 0 ? s.original : stated;
  spec.context_trained = stated;
  if ((s.rule == "yarn" || s.rule == "llama3") && s.original > 0) {
    const double reach = static_cast<double>(s.original) * s.factor.value_or(1);
    if (reach < 0x1p40) spec.context_trained = std::max(stated, static_cast<int64_t>(std::llround(reach)));
  }
  spec.context_claimed = spec.context_trained;
}

namespace {

// The keys below "{architecture}.rope." that are read here or change nothing.
constexpr std::string_view kKnownRopeKeys[] = {"freq_base",
                                               "freq_base_swa",
                                               "dimension_count",
                                               "scale_linear",
                                               "scaling.type",
                                               "scaling.factor",
                                               "scaling.attn_factor",
                                               "scaling.original_context_length",
                                               "scaling.finetuned",
                                               "scaling.yarn_ext_factor",
                                               "scaling.yarn_attn_factor",
                                               "scaling.yarn_beta_fast",
                                               "scaling.yarn_beta_slow",
                                               "scaling.yarn_log_multiplier"};

struct Keys {
  const GgufFile& file;
  std::string prefix;

  Result<std::optional<double>> number(std::string_view name) const {
    const std::string key = prefix + std::string(name);
    if (!file.has(key)) return std::optional<double>();
    ROPEWALK_TRY(const double value, file.number(key));
    return std::optional<double>(value);
  }
};

Result<std::vector<double>> tensor_numbers(const GgufFile& file, const char* name, int planes) {
  std::vector<double> values;
  const StoredTensor* tensor = file.find(name);
  if (tensor == nullptr) return values;
  if (tensor->elements() != planes) {
    return fail(ErrorCode::kCorrupt, "[engine] {}: tensor {}: expected one number for each of the {} planes, but got {}",
                file.path(), name, planes, tensor->elements());
  }
  ROPEWALK_TRY(const std::vector<float> read, expand_vector(tensor, file.path()));
  values.assign(read.begin(), read.end());
  return values;
}

Result<void> read_rule(const Keys& keys, RopeScaling& s, ModelSpec& spec) {
  ROPEWALK_TRY(s.factor, keys.number("scaling.factor"));
  ROPEWALK_TRY(const std::optional<double> old_factor, keys.number("scale_linear"));
  const std::string type_key = keys.prefix + "scaling.type";
  std::string type;
  if (keys.file.has(type_key)) {
    ROPEWALK_TRY(type, keys.file.text(type_key));
  } else if (s.factor || old_factor) {
    type = "linear";  // what a factor without a type means in this format
  }
  if (!s.factor && type == "linear") s.factor = old_factor;
  if (type == "none" && s.factor.value_or(1) != 1) {
    spec.notes.push_back(
        fmt::format("{}scaling.factor = {} has no effect, because {} is none", keys.prefix, *s.factor, type_key));
  }
  if (type.empty() || type == "none") return {};
  if (type != "linear" && type != "yarn" && type != "longrope") {
    return fail(ErrorCode::kUnsupported, "[engine] {}: key {}: expected none, linear, yarn or longrope, but got \"{}\"",
                keys.file.path(), type_key, type);
  }
  s.rule = type;
  if (!s.factor && type != "longrope") {
    return fail(ErrorCode::kNotFound,
                "[engine] {}: key {}scaling.factor: expected the factor of {} scaling, but the key is missing",
                keys.file.path(), keys.prefix, type);
  }
  return {};
}

Result<void> read_yarn(const Keys& keys, RopeScaling& s) {
  ROPEWALK_TRY(const auto fast, keys.number("scaling.yarn_beta_fast"));
  ROPEWALK_TRY(const auto slow, keys.number("scaling.yarn_beta_slow"));
  if (fast) s.yarn.beta_fast = *fast;
  if (slow) s.yarn.beta_slow = *slow;
  const auto refused = [&](const char* name, double want, const std::optional<double>& got) -> Result<void> {
    if (!got || *got == want) return {};
    return fail(ErrorCode::kUnsupported, "[engine] {}: key {}{}: expected {} (nothing else is supported), but got {}",
                keys.file.path(), keys.prefix, name, want, *got);
  };
  ROPEWALK_TRY(const auto mix, keys.number("scaling.yarn_ext_factor"));
  ROPEWALK_CHECK_OK(refused("scaling.yarn_ext_factor", 1, mix));
  ROPEWALK_TRY(const auto log_multiplier, keys.number("scaling.yarn_log_multiplier"));
  ROPEWALK_CHECK_OK(refused("scaling.yarn_log_multiplier", 0, log_multiplier));
  return {};
}

}  // namespace

Result<RopeScaling> read_gguf_rope(const GgufFile& file, const std::string& base_key, Pairing pairing, ModelSpec& spec) {
  const Keys keys{file, spec.architecture + ".rope."};
  for (const GgufValue& entry : file.metadata()) {
    const std::string_view name = entry.key;
    if (!name.starts_with(keys.prefix)) continue;
    if (std::ranges::find(kKnownRopeKeys, name.substr(keys.prefix.size())) == std::end(kKnownRopeKeys)) {
      return fail(ErrorCode::kUnsupported,
                  "[engine] {}: key {}: expected only position keys that are understood, but got this one", file.path(), name);
    }
  }
  RopeScaling s;
  s.pairing = pairing;
  s.rotary_dim = spec.head_dim;
  if (file.has(keys.prefix + "dimension_count")) {
    ROPEWALK_TRY(const int64_t rotary, file.integer(keys.prefix + "dimension_count", 2, spec.head_dim));
    s.rotary_dim = static_cast<int>(rotary);
  }
  const std::string base = spec.architecture + "." + base_key;
  if (file.has(base)) {
    ROPEWALK_TRY(s.theta, file.number(base));
  }
  ROPEWALK_CHECK_OK(read_rule(keys, s, spec));
  if (file.has(keys.prefix + "scaling.original_context_length")) {
    ROPEWALK_TRY(s.original, file.integer(keys.prefix + "scaling.original_context_length", 1, int64_t{1} << 40));
  }
  if (s.rule == "yarn") ROPEWALK_CHECK_OK(read_yarn(keys, s));
  // Two names of one number: the first in the converters, the second in newer files.
  ROPEWALK_TRY(const auto attention_factor, keys.number("scaling.attn_factor"));
  ROPEWALK_TRY(const auto yarn_factor, keys.number("scaling.yarn_attn_factor"));
  const int planes = s.rotary_dim / 2;
  ROPEWALK_TRY(s.divisors, tensor_numbers(file, "rope_freqs.weight", planes));
  ROPEWALK_TRY(s.longrope.short_factor, tensor_numbers(file, "rope_factors_short.weight", planes));
  ROPEWALK_TRY(s.longrope.long_factor, tensor_numbers(file, "rope_factors_long.weight", planes));
  const bool lists = !s.longrope.short_factor.empty() || !s.longrope.long_factor.empty();
  if (lists && s.rule.empty()) s.rule = "longrope";
  if (s.rule == "longrope") {
    if (s.longrope.short_factor.empty() || s.longrope.long_factor.empty() || s.original == 0) {
      return fail(ErrorCode::kNotFound,
                  "[engine] {}: longrope scaling: expected rope_factors_short.weight, rope_factors_long.weight and "
                  "{}scaling.original_context_length, but one of them is missing",
                  file.path(), keys.prefix);
    }
    s.longrope.attention_factor = attention_factor ? attention_factor : yarn_factor;
    s.longrope.factor = static_cast<double>(std::max(spec.context_claimed, s.original)) / static_cast<double>(s.original);
    return s;
  }
  if (lists) {
    return fail(ErrorCode::kCorrupt,
                "[engine] {}: tensor rope_factors_short/long.weight: expected them with longrope scaling, but got {}",
                file.path(), s.rule);
  }
  // In this format the number multiplies the default amplitude 0.1 ln s + 1, where Hugging Face's attention_factor replaces it.
  s.amplitude = attention_factor.value_or(1) * yarn_factor.value_or(1);
  return s;
}

}  // namespace ropewalk
