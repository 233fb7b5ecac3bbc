#include "formats/hf_rope.h"

#include <algorithm>
#include <array>
#include <set>

#include "formats/printable.h"

namespace ropewalk {
namespace {

using nlohmann::json;

constexpr int64_t kMaxLength = int64_t{1} << 40;

bool is_gemma3(const HfConfig& config) { return config.model_type.starts_with("gemma3"); }

// One dictionary a layer type instead of one for all.
bool is_nested(const json& dictionary) {
  return std::any_of(dictionary.begin(), dictionary.end(), [](const json& value) { return value.is_object(); });
}

Result<std::string> read_type(const ConfigObject& rope) {
  ROPEWALK_TRY(const auto old_name, rope.text("type"));
  ROPEWALK_TRY(const auto new_name, rope.text("rope_type"));
  if (old_name && new_name && *old_name != *new_name) {
    return fail(ErrorCode::kCorrupt, "[config] {}: {}: expected type and rope_type to agree, but got type {} and rope_type {}",
                rope.file(), rope.path(), printable(*old_name), printable(*new_name));
  }
  return new_name ? *new_name : old_name ? *old_name : std::string("default");
}

// Keys whose range is known whatever the rule. Others are kept as they are: finite, since JSON has no other numbers.
Result<void> check_ranges(const ConfigObject& rope) {
  for (const char* key : {"factor", "rope_theta", "beta_fast", "beta_slow", "low_freq_factor", "high_freq_factor",
                          "attention_factor", "short_mscale", "long_mscale", "alpha"}) {
    ROPEWALK_TRY([[maybe_unused]] const auto value, rope.positive(key));
  }
  ROPEWALK_TRY([[maybe_unused]] const auto original, rope.integer("original_max_position_embeddings", 1, kMaxLength));
  ROPEWALK_TRY([[maybe_unused]] const auto truncate, rope.flag("truncate"));
  for (const char* key : {"short_factor", "long_factor"}) {
    const json* list = rope.find(key);
    if (list == nullptr) continue;
    const bool good = list->is_array() && std::all_of(list->begin(), list->end(),
                                                      [](const json& x) { return x.is_number() && x.get<double>() > 0; });
    if (!good) return rope.unexpected(key, "a list of numbers above 0");
  }
  return {};
}

Result<void> keep_value(const ConfigObject& rope, const std::string& key, const json& value, HfRope& out) {
  if (value.is_number()) {
    out.numbers[key] = value.get<double>();
  } else if (value.is_boolean()) {
    out.flags[key] = value.get<bool>();
  } else if (value.is_string()) {
    out.texts[key] = value.get<std::string>();
  } else if (value.is_array() && std::all_of(value.begin(), value.end(), [](const json& x) { return x.is_number(); })) {
    out.lists[key] = value.get<std::vector<double>>();
  } else {
    return rope.unexpected(key, "a number, a list of numbers, true, false or a string");
  }
  return {};
}

// The rules that mean nothing without a factor. YaRN may derive it from its two lengths.
Result<void> check_factor(const ConfigObject& rope, const HfRope& out) {
  const bool needs = out.type == "linear" || out.type == "dynamic" || out.type == "llama3" ||
                     (out.type == "yarn" && !out.numbers.contains("original_max_position_embeddings"));
  if (needs && !out.numbers.contains("factor"))
    return rope.missing("factor", fmt::format("a finite number above 0 for the type {}", out.type));
  return {};
}

Result<HfRope> read_dictionary(const ConfigObject& rope, const HfConfig& config) {
  HfRope out;
  out.path = rope.path();
  ROPEWALK_TRY(out.type, read_type(rope));
  ROPEWALK_CHECK_OK(check_ranges(rope));
  for (const auto& [key, value] : rope.object().items()) {
    if (key == "type" || key == "rope_type" || value.is_null()) continue;
    ROPEWALK_CHECK_OK(keep_value(rope, key, value, out));
  }
  if (out.scaled() && config.original_max_position_embeddings) {
    out.numbers.try_emplace("original_max_position_embeddings", static_cast<double>(*config.original_max_position_embeddings));
  }
  ROPEWALK_CHECK_OK(check_factor(rope, out));
  return out;
}

// What the top level says about rotation, beside the dictionaries.
struct TopLevel {
  std::optional<double> theta, local_theta, share;
  std::string theta_key, share_key;
  std::optional<int64_t> rotary_dim;
};

// The first of the spellings that is there.
Result<std::optional<double>> first_of(const ConfigObject& root, std::initializer_list<const char*> keys, std::string& which) {
  for (const char* key : keys) {
    ROPEWALK_TRY(const auto value, root.positive(key));
    if (value) {
      which = key;
      return value;
    }
  }
  return std::optional<double>();
}

Result<TopLevel> read_top_level(const ConfigObject& root) {
  TopLevel top;
  ROPEWALK_TRY(top.theta, first_of(root, {"rope_theta", "rotary_emb_base"}, top.theta_key));
  ROPEWALK_TRY(top.local_theta, root.positive("rope_local_base_freq"));
  ROPEWALK_TRY(top.share, first_of(root, {"partial_rotary_factor", "rotary_pct"}, top.share_key));
  ROPEWALK_TRY(top.rotary_dim, root.integer("rotary_dim", 1, kMaxLength));
  return top;
}

// R, from a count or a share of the head. int(D * share) rounds down, as the reference does.
Result<int64_t> rotary_dim(const ConfigObject& root, const TopLevel& top, const HfRope& rope, const HfConfig& config) {
  const int64_t head = config.head_dim;
  if (rope.type == "proportional") return head;  // there the share counts planes that turn, over the whole head
  int64_t dims = head;
  std::string key = "head_dim";
  std::string derivation =
      fmt::format("hidden_size {} / num_attention_heads {}, or head_dim", config.hidden_size, config.num_attention_heads);
  const std::optional<double> own_share = rope.number("partial_rotary_factor");
  const std::optional<double> share = own_share ? own_share : top.share;
  if (share) {
    key = own_share ? rope.path + ".partial_rotary_factor" : root.path_of(top.share_key);
    derivation = fmt::format("{} of head_dim {}", *share, head);
    if (!(*share > 0) || *share > 1) {
      return fail(ErrorCode::kCorrupt, "[config] {}: {}: expected a share above 0 and at most 1, but got {}", root.file(), key,
                  *share);
    }
    dims = static_cast<int64_t>(static_cast<double>(head) * *share);
  } else if (top.rotary_dim) {
    key = root.path_of("rotary_dim");
    derivation = fmt::format("head_dim is {}", head);
    dims = *top.rotary_dim;
  }
  if (dims < 2 || dims % 2 != 0 || dims > head) {
    return fail(ErrorCode::kCorrupt,
                "[config] {}: {}: expected an even number of rotated dims from 2 to head_dim {}, but got {} ({})", root.file(),
                key, head, dims, derivation);
  }
  return dims;
}

void settle_theta(const ConfigObject& root, const TopLevel& top, const std::string& layer_type, HfRope& rope,
                  HfConfig& config) {
  const bool local = layer_type == "sliding_attention" && is_gemma3(config);
  const std::optional<double> own = rope.number("rope_theta");
  const std::optional<double> outer = local ? top.local_theta : top.theta;
  const std::string outer_key = root.path_of(local ? "rope_local_base_freq" : top.theta_key);
  if (own && outer && *own != *outer) {
    config.warnings.push_back(fmt::format("{}: {} is given beside {}.rope_theta {}; the latter is taken, as transformers does",
                                          outer_key, *outer, rope.path, *own));
  }
  const double fallback = is_gemma3(config) && !local ? 1e6 : 10000;
  rope.theta = own ? *own : outer ? *outer : fallback;
  if (!own && !outer) {
    config.warnings.push_back(fmt::format("{}: the file gives no base for {}; {} is taken, the default of {}",
                                          root.path_of(local ? "rope_local_base_freq" : "rope_theta"), layer_type, fallback,
                                          config.model_type.empty() ? "transformers" : printable(config.model_type)));
  }
}

// The dictionary in force: rope_scaling where it says anything, else rope_parameters, as transformers 5 reads them.
Result<std::optional<ConfigObject>> find_dictionary(const ConfigObject& root, HfConfig& config) {
  std::optional<ConfigObject> found;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const json* value = root.find(key);
    if (value == nullptr) continue;
    if (!value->is_object()) return root.unexpected(key, "an object");
    if (value->empty()) continue;
    if (found && found->object() != *value) {
      config.warnings.push_back(
          fmt::format("{} and {} are both given and differ; the latter is taken", found->path(), root.path_of(key)));
    }
    found.emplace(*value, root.file(), root.path_of(key));
  }
  return found;
}

Result<HfRope> rope_for(const std::optional<ConfigObject>& dictionary, const std::string& layer_type, const HfConfig& config) {
  if (!dictionary) return HfRope{};
  if (is_nested(dictionary->object())) {
    const json* own = dictionary->find(layer_type);
    if (own == nullptr && is_gemma3(config)) return HfRope{};
    if (own == nullptr) return dictionary->missing(layer_type, "an object for this layer type");
    if (!own->is_object()) return dictionary->unexpected(layer_type, "an object");
    return read_dictionary(ConfigObject(*own, dictionary->file(), dictionary->path_of(layer_type)), config);
  }
  // Gemma 3's flat dictionary is for the global layers; the local ones keep their bare base.
  if (is_gemma3(config) && layer_type != "full_attention") return HfRope{};
  return read_dictionary(*dictionary, config);
}

}  // namespace

Result<void> read_rope(const ConfigObject& root, HfConfig& config) {
  ROPEWALK_TRY(const TopLevel top, read_top_level(root));
  ROPEWALK_TRY(const auto dictionary, find_dictionary(root, config));
  const std::set<std::string> layer_types(config.layer_types.begin(), config.layer_types.end());
  for (const std::string& layer_type : layer_types) {
    ROPEWALK_TRY(HfRope rope, rope_for(dictionary, layer_type, config));
    settle_theta(root, top, layer_type, rope, config);
    ROPEWALK_TRY(rope.rotary_dim, rotary_dim(root, top, rope, config));
    config.rope.emplace(layer_type, std::move(rope));
  }
  return {};
}

}  // namespace ropewalk
