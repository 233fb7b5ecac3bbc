#include "engine/hf_sizes.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/fail.h"
#include "engine/rope_scaling.h"

namespace ropewalk {
namespace {

Error unsupported(const HfConfig& config, const std::string& key, const std::string& expected, const std::string& found) {
  return fail(ErrorCode::kUnsupported, "[engine] {}: key {}: expected {}, but got {}", config.file, key, expected, found);
}

Result<Activation> activation(const HfConfig& config) {
  const std::string& name = config.hidden_activation;
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return Activation::kGeluTanh;
  return unsupported(config, "hidden_activation", "silu or gelu_pytorch_tanh", name);
}

int64_t whole(double number) { return static_cast<int64_t>(std::llround(number)); }

Result<RopeScaling> read_rope(const HfConfig& config, const HfRope& rope) {
  RopeScaling s;
  s.theta = rope.theta;
  s.rotary_dim = static_cast<int>(rope.rotary_dim);
  s.pairing = Pairing::kHalves;
  s.factor = rope.number("factor");
  if (const auto original = rope.number("original_max_position_embeddings")) s.original = whole(*original);
  if (rope.type == "default") return s;
  const auto key = [&](const char* name) { return rope.path.empty() ? std::string(name) : rope.path + "." + name; };
  if (rope.lists.contains("mrope_section")) return unsupported(config, key("mrope_section"), "one position axis", "several");
  if (rope.type == "dynamic" && rope.number("alpha")) {  // not dynamic at all: a fixed change of the base
    s.rule = "ntk";
    s.factor = rope.number("alpha");
    return s;
  }
  s.rule = rope.type == "su" ? "longrope" : rope.type;
  if (s.rule == "yarn") {
    s.yarn.beta_fast = rope.number("beta_fast").value_or(s.yarn.beta_fast);
    s.yarn.beta_slow = rope.number("beta_slow").value_or(s.yarn.beta_slow);
    s.yarn.attention_factor = rope.number("attention_factor");
    s.yarn.mscale = rope.number("mscale");
    s.yarn.mscale_all_dim = rope.number("mscale_all_dim");
    if (const auto flag = rope.flags.find("truncate"); flag != rope.flags.end()) s.yarn.truncate = flag->second;
  } else if (s.rule == "llama3") {
    s.llama3.low = rope.number("low_freq_factor").value_or(s.llama3.low);
    s.llama3.high = rope.number("high_freq_factor").value_or(s.llama3.high);
  } else if (s.rule == "longrope") {
    for (const auto& [name, list] :
         {std::pair{"short_factor", &s.longrope.short_factor}, std::pair{"long_factor", &s.longrope.long_factor}}) {
      const auto found = rope.lists.find(name);
      if (found == rope.lists.end()) {
        return fail(ErrorCode::kNotFound, "[engine] {}: key {}: expected a number for each plane, but the key is missing",
                    config.file, key(name));
      }
      *list = found->second;
    }
    const double original =
        s.original > 0 ? static_cast<double>(s.original) : static_cast<double>(config.max_position_embeddings);
    s.longrope.factor = s.factor.value_or(static_cast<double>(config.max_position_embeddings) / original);
    s.longrope.attention_factor = rope.number("attention_factor");
    s.longrope.short_mscale = rope.number("short_mscale");
    s.longrope.long_mscale = rope.number("long_mscale");
    return s;
  } else if (s.rule != "linear" && s.rule != "dynamic") {
    return unsupported(config, key("rope_type"), "default, linear, dynamic, yarn, longrope or llama3", "\"" + rope.type + "\"");
  }
  if (!s.factor) {
    return fail(ErrorCode::kNotFound, "[engine] {}: key {}: expected the factor of {} scaling, but the key is missing",
                config.file, key("factor"), s.rule);
  }
  return s;
}

}  // namespace

Result<void> read_hf_sizes(const HfConfig& config, ModelSpec& spec) {
  if (config.use_bidirectional_attention)
    return unsupported(config, "use_bidirectional_attention", "false (a causal model)", "true");
  if (config.intermediate_size < 1) {
    return fail(ErrorCode::kNotFound,
                "[engine] {}: key intermediate_size: expected the feed-forward width, but the key is missing", config.file);
  }
  if (config.vocab_size < 1) {
    return fail(ErrorCode::kNotFound,
                "[engine] {}: key vocab_size: expected the size of the vocabulary, but the key is missing", config.file);
  }
  constexpr int64_t kMaxHeadDim = 512, kMaxLayers = 4096;
  if (config.head_dim < 1 || config.head_dim > kMaxHeadDim) {
    return unsupported(config, "head_dim", fmt::format("1 to {}", kMaxHeadDim), std::to_string(config.head_dim));
  }
  if (config.num_hidden_layers < 1 || config.num_hidden_layers > kMaxLayers) {
    return unsupported(config, "num_hidden_layers", fmt::format("1 to {}", kMaxLayers),
                       std::to_string(config.num_hidden_layers));
  }
  spec.name = config.architectures.empty() ? config.model_type : config.architectures.front();
  spec.width = config.hidden_size;
  spec.vocabulary = config.vocab_size;
  spec.ffn_width = config.intermediate_size;
  spec.heads = static_cast<int>(config.num_attention_heads);
  spec.kv_heads = static_cast<int>(config.num_key_value_heads);
  spec.head_dim = static_cast<int>(config.head_dim);
  spec.norm_epsilon = config.rms_norm_eps;
  ROPEWALK_TRY(spec.activation, activation(config));
  if (config.query_pre_attn_scalar) spec.attention_scale = 1 / std::sqrt(*config.query_pre_attn_scalar);
  spec.attention_softcap = config.attn_logit_softcapping.value_or(0);
  spec.logit_softcap = config.final_logit_softcapping.value_or(0);
  spec.context_claimed = config.max_position_embeddings;
  spec.notes = config.warnings;
  spec.layers.resize(static_cast<size_t>(config.num_hidden_layers));
  return {};
}

Result<void> set_hf_positions(const HfConfig& config, ModelSpec& spec) {
  std::map<std::string, LayerPosition> kinds;
  bool contexts = false;
  for (const std::string& type : config.layer_types) {
    if (kinds.contains(type)) continue;
    const bool sliding = type == "sliding_attention";
    if (!sliding && type != "full_attention") {
      return unsupported(config, "layer_types", "full_attention or sliding_attention", "\"" + type + "\"");
    }
    ROPEWALK_TRY(const RopeScaling rope, read_rope(config, config.rope.at(type)));
    LayerPosition position;
    ROPEWALK_CHECK_OK(set_rotation(rope, spec.head_dim, config.max_position_embeddings, config.file, position));
    position.reach.window = sliding ? config.sliding_window : 0;
    kinds.emplace(type, position);
    if (contexts && sliding) continue;  // the full layers say how far the model reads
    set_contexts(rope, config.max_position_embeddings, spec);
    spec.file_rule = rope.rule == "dynamic" ? fmt::format("dynamic:{}", *rope.factor) : "";
    if (!spec.file_rule.empty()) {
      spec.notes.push_back("dynamic scaling in the file is applied by steps of the sequence's own length: " + spec.file_rule);
    }
    contexts = true;
  }
  if (config.layer_types.size() != spec.layers.size()) {
    return fail(ErrorCode::kCorrupt, "[engine] {}: key layer_types: expected {} entries, but got {}", config.file,
                spec.layers.size(), config.layer_types.size());
  }
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    spec.layers[i].position = kinds.at(config.layer_types[i]);
    spec.layers[i].position.global = kinds.size() == 1 || config.layer_types[i] == "full_attention";
  }
  return {};
}

}  // namespace ropewalk
