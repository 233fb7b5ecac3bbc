#include "formats/hf_config.h"

#include <algorithm>
#include <filesystem>
#include <new>

#include "base/atomic_file.h"
#include "formats/config_object.h"
#include "formats/hf_rope.h"
#include "formats/printable.h"

namespace ropewalk {
namespace {

using nlohmann::json;

constexpr int64_t kMaxWidth = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxLayers = 65536;  // also bounds what a hostile count can make us allocate
constexpr int64_t kMaxLength = int64_t{1} << 40;
constexpr size_t kMaxBytes = 16u << 20u;

// What transformers takes where a file is silent. Gemma 3's own checkpoints leave most keys out.
struct Defaults {
  std::string_view model_type;
  std::optional<int64_t> hidden, ffn, vocabulary, layers, heads, kv_heads, head_dim;
  int64_t length;
  double epsilon;
  bool tied;
  std::string_view activation;
  std::optional<int64_t> window;
  std::optional<double> query_scalar;
};
const Defaults kGemma3 = {"gemma3", 2304, 9216, 262208, 26, 8, 4, 256, 131072, 1e-6, true, "gelu_pytorch_tanh", 4096, 256.0};
const Defaults kQwen2 = {"qwen2", {}, {}, {}, {}, {}, {}, {}, 32768, 1e-6, false, "silu", 4096, {}};
const Defaults kOther = {"", {}, {}, {}, {}, {}, {}, {}, 2048, 1e-6, false, "silu", {}, {}};

const Defaults& defaults_of(const std::string& model_type) {
  for (const Defaults* d : {&kGemma3, &kQwen2}) {
    if (model_type.starts_with(d->model_type)) return *d;
  }
  return kOther;
}

// A count that must be there, unless transformers has a default for this model type.
Result<int64_t> required(const ConfigObject& root, std::string_view key, int64_t high, std::optional<int64_t> fallback,
                         HfConfig& config) {
  ROPEWALK_TRY(const auto value, root.integer(key, 1, high));
  if (value) return *value;
  if (!fallback) return root.missing(key, fmt::format("an integer from 1 to {}", high));
  config.warnings.push_back(
      fmt::format("{}: absent; {} is taken, the default of {}", root.path_of(key), *fallback, printable(config.model_type)));
  return *fallback;
}

Result<void> read_widths(const ConfigObject& root, const Defaults& defaults, HfConfig& config) {
  ROPEWALK_TRY(config.hidden_size, required(root, "hidden_size", kMaxWidth, defaults.hidden, config));
  ROPEWALK_TRY(config.num_hidden_layers, required(root, "num_hidden_layers", kMaxLayers, defaults.layers, config));
  ROPEWALK_TRY(config.num_attention_heads, required(root, "num_attention_heads", kMaxWidth, defaults.heads, config));
  ROPEWALK_TRY(const auto ffn, root.integer("intermediate_size", 1, kMaxWidth));
  config.intermediate_size = ffn.value_or(defaults.ffn.value_or(0));
  ROPEWALK_TRY(const auto vocabulary, root.integer("vocab_size", 1, kMaxWidth));
  config.vocab_size = vocabulary.value_or(defaults.vocabulary.value_or(0));

  const int64_t heads = config.num_attention_heads;
  ROPEWALK_TRY(const auto kv_heads, root.integer("num_key_value_heads", 1, kMaxWidth));
  config.num_key_value_heads = kv_heads.value_or(defaults.kv_heads.value_or(heads));
  if (heads % config.num_key_value_heads != 0) {
    return root.unexpected("num_key_value_heads", fmt::format("a divisor of num_attention_heads {}", heads));
  }
  ROPEWALK_TRY(const auto head_dim, root.integer("head_dim", 1, kMaxWidth));
  if (head_dim || defaults.head_dim) {
    config.head_dim = head_dim.value_or(defaults.head_dim.value_or(0));
  } else if (config.hidden_size % heads != 0) {
    return root.unexpected("hidden_size",
                           fmt::format("a multiple of num_attention_heads {}, since head_dim is not given", heads));
  } else {
    config.head_dim = config.hidden_size / heads;
  }
  return {};
}

Result<void> read_lengths(const ConfigObject& root, const Defaults& defaults, HfConfig& config) {
  ROPEWALK_TRY(config.max_position_embeddings, required(root, "max_position_embeddings", kMaxLength, defaults.length, config));
  ROPEWALK_TRY(config.original_max_position_embeddings, root.integer("original_max_position_embeddings", 1, kMaxLength));
  return {};
}

// Which layers slide where the file has no list: by pattern (Gemma 3), from a layer on (Qwen2), or all (Mistral and its kin).
Result<std::vector<std::string>> default_layer_types(const ConfigObject& root, const HfConfig& config) {
  std::vector<std::string> types(static_cast<size_t>(config.num_hidden_layers), "full_attention");
  if (config.sliding_window == 0) return types;
  ROPEWALK_TRY(const auto pattern, root.integer("sliding_window_pattern", 1, kMaxLayers));
  ROPEWALK_TRY(const auto first, root.integer("max_window_layers", 0, kMaxLayers));
  const bool gemma = config.model_type.starts_with("gemma3");
  const bool qwen = config.model_type.starts_with("qwen2");
  for (size_t i = 0; i < types.size(); ++i) {
    const auto layer = static_cast<int64_t>(i);
    const bool slides = gemma || pattern ? (layer + 1) % pattern.value_or(6) != 0 : qwen ? layer >= first.value_or(28) : true;
    if (slides) types[i] = "sliding_attention";
  }
  return types;
}

Result<void> read_layers(const ConfigObject& root, const Defaults& defaults, HfConfig& config) {
  ROPEWALK_TRY(const auto window, root.integer("sliding_window", 1, kMaxLength));
  ROPEWALK_TRY(const auto use_window, root.flag("use_sliding_window"));
  const bool qwen = config.model_type.starts_with("qwen2");
  if (use_window.value_or(!qwen)) {
    // A null switches windows off (Mistral); only a missing key takes the default.
    const bool silent = !root.object().contains("sliding_window");
    config.sliding_window = window.value_or(silent ? defaults.window.value_or(0) : 0);
  }
  const json* list = root.find("layer_types");
  if (list == nullptr && config.model_type == "llama" && config.sliding_window > 0) {
    config.warnings.push_back(
        fmt::format("{}: {} has no effect in a llama model", root.path_of("sliding_window"), config.sliding_window));
    config.sliding_window = 0;
  }
  if (list == nullptr) {
    ROPEWALK_TRY(config.layer_types, default_layer_types(root, config));
    return {};
  }
  if (!list->is_array() || !std::all_of(list->begin(), list->end(), [](const json& x) { return x.is_string(); })) {
    return root.unexpected("layer_types", "a list of strings");
  }
  if (list->size() != static_cast<size_t>(config.num_hidden_layers)) {
    return fail(ErrorCode::kCorrupt, "[config] {}: {}: expected one entry for each of num_hidden_layers {}, but got {}",
                root.file(), root.path_of("layer_types"), config.num_hidden_layers, list->size());
  }
  config.layer_types = list->get<std::vector<std::string>>();
  const bool any_slides = std::count(config.layer_types.begin(), config.layer_types.end(), "sliding_attention") > 0;
  if (any_slides && config.sliding_window == 0) {
    config.warnings.push_back(fmt::format("{}: gives no window although {} has sliding layers; they see everything",
                                          root.path_of("sliding_window"), root.path_of("layer_types")));
  }
  if (!any_slides) config.sliding_window = 0;
  return {};
}

Result<void> read_details(const ConfigObject& root, const Defaults& defaults, HfConfig& config) {
  ROPEWALK_TRY(const auto epsilon, root.positive("rms_norm_eps"));
  config.rms_norm_eps = epsilon.value_or(defaults.epsilon);
  ROPEWALK_TRY(const auto bias, root.flag("attention_bias"));
  config.attention_bias = bias.value_or(false);
  ROPEWALK_TRY(const auto mlp_bias, root.flag("mlp_bias"));
  config.mlp_bias = mlp_bias.value_or(false);
  ROPEWALK_TRY(const auto bidirectional, root.flag("use_bidirectional_attention"));
  config.use_bidirectional_attention = bidirectional.value_or(false);
  ROPEWALK_TRY(const auto activation, root.text("hidden_activation"));
  ROPEWALK_TRY(const auto old_activation, root.text("hidden_act"));
  config.hidden_activation = activation ? *activation : old_activation.value_or(std::string(defaults.activation));
  ROPEWALK_TRY(config.query_pre_attn_scalar, root.positive("query_pre_attn_scalar"));
  if (!config.query_pre_attn_scalar) config.query_pre_attn_scalar = defaults.query_scalar;
  ROPEWALK_TRY(config.attn_logit_softcapping, root.positive("attn_logit_softcapping"));
  ROPEWALK_TRY(config.final_logit_softcapping, root.positive("final_logit_softcapping"));
  return {};
}

Result<std::vector<int64_t>> read_ids(const ConfigObject& object, std::string_view key) {
  const json* value = object.find(key);
  if (value == nullptr) return std::vector<int64_t>();
  const json list = value->is_array() ? *value : json::array({*value});
  std::vector<int64_t> ids;
  for (const json& id : list) {
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > static_cast<uint64_t>(kMaxWidth))) {
      return object.unexpected(key, "a token id or a list of them");
    }
    if (id.get<int64_t>() >= 0) ids.push_back(id.get<int64_t>());  // -1 means none in old files
  }
  return ids;
}

// Keys that a multi-part config may keep at its top level only.
Result<void> read_outer(const ConfigObject& root, const ConfigObject& outer, const Defaults& defaults, HfConfig& config) {
  config.tie_word_embeddings = defaults.tied;
  for (const ConfigObject* object : {&outer, &root}) {  // the inner one has the last word
    ROPEWALK_TRY(const auto tied, object->flag("tie_word_embeddings"));
    if (tied) config.tie_word_embeddings = *tied;
    for (const char* key : {"dtype", "torch_dtype"}) {
      ROPEWALK_TRY(const auto dtype, object->text(key));
      if (dtype) config.torch_dtype = *dtype;
    }
    ROPEWALK_TRY(const auto bos, read_ids(*object, "bos_token_id"));
    if (!bos.empty()) config.bos_token_id = bos.front();
    ROPEWALK_TRY(auto eos, read_ids(*object, "eos_token_id"));
    if (!eos.empty()) config.eos_token_ids = std::move(eos);
    const json* names = object->find("architectures");
    if (names == nullptr) continue;
    if (!names->is_array() || !std::all_of(names->begin(), names->end(), [](const json& x) { return x.is_string(); })) {
      return object->unexpected("architectures", "a list of strings");
    }
    config.architectures = names->get<std::vector<std::string>>();
  }
  return {};
}

Result<HfConfig> read_config(const json& document, const std::string& name) {
  if (!document.is_object()) {
    return fail(ErrorCode::kCorrupt, "[config] {}: expected a JSON object, but got {}", name, describe(document));
  }
  const ConfigObject outer(document, name, "");
  const json* text_part = outer.find("text_config");
  if (text_part != nullptr && !text_part->is_object()) return outer.unexpected("text_config", "an object");
  const ConfigObject root = text_part == nullptr ? outer : ConfigObject(*text_part, name, "text_config");

  HfConfig config;
  config.file = name;
  ROPEWALK_TRY(const auto model_type, root.text("model_type"));
  ROPEWALK_TRY(const auto outer_type, outer.text("model_type"));
  config.model_type = model_type ? *model_type : outer_type.value_or("");
  const Defaults& defaults = defaults_of(config.model_type);
  ROPEWALK_CHECK_OK(read_widths(root, defaults, config));
  ROPEWALK_CHECK_OK(read_lengths(root, defaults, config));
  ROPEWALK_CHECK_OK(read_layers(root, defaults, config));
  ROPEWALK_CHECK_OK(read_details(root, defaults, config));
  ROPEWALK_CHECK_OK(read_outer(root, outer, defaults, config));
  ROPEWALK_CHECK_OK(read_rope(root, config));
  return config;
}

}  // namespace

Result<HfConfig> parse_hf_config(std::string_view text, const std::string& name) {
  ROPEWALK_TRY(const json document, parse_json(text, {.who = "config", .name = name, .max_bytes = kMaxBytes}));
  try {
    return read_config(document, name);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLarge, "[config] {}: expected values that fit the memory, but an allocation failed", name);
  }
}

Result<HfConfig> load_hf_config(const std::string& path) {
  std::error_code error;
  const std::string file =
      std::filesystem::is_directory(path, error) ? (std::filesystem::path(path) / "config.json").string() : path;
  ROPEWALK_TRY(const std::string text, read_file(file, kMaxBytes));
  return parse_hf_config(text, file);
}

}  // namespace ropewalk
