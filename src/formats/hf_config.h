// Hugging Face `config.json`: what the architectures of the engine need, as plain data, every value typed and in range.
// Rope scaling stays data here (a type and named numbers): its rules live in encodings/rope, and the engine joins the two.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropewalk/error.h"

namespace ropewalk {

// One rotary scheme of the file: a base, a rule by its name, and the rule's keys as they stand.
struct HfRope {
  std::string path;      // key path of the dictionary, for messages: "rope_scaling", "rope_parameters.full_attention"; or empty
  double theta = 10000;  // the base
  int64_t rotary_dim = 0;  // R: even, 2 .. head_dim. For the type "proportional" it is head_dim
  std::string type =
      "default";  // "default", "linear", "dynamic", "yarn", "longrope", "llama3", ... or any other, by its own name
  std::map<std::string, double> numbers;             // factor, beta_fast, original_max_position_embeddings, mscale, ...
  std::map<std::string, std::vector<double>> lists;  // long_factor, short_factor, mrope_section
  std::map<std::string, bool> flags;                 // truncate, ...
  std::map<std::string, std::string> texts;          // anything else that is a string

  bool scaled() const { return type != "default"; }
  std::optional<double> number(const std::string& key) const {
    const auto it = numbers.find(key);
    return it == numbers.end() ? std::nullopt : std::optional<double>(it->second);
  }
};

struct HfConfig {
  std::string file;        // for messages
  std::string model_type;  // of the text part: "llama", "qwen2", "gemma3_text", ...
  std::vector<std::string> architectures;
  int64_t hidden_size = 0;        // C
  int64_t intermediate_size = 0;  // F; 0 where the file does not say
  int64_t vocab_size = 0;         // V; 0 where the file does not say
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;                          // H
  int64_t num_key_value_heads = 0;                          // Hkv, divides H
  int64_t head_dim = 0;                                     // D
  int64_t max_position_embeddings = 0;                      // what the file claims; scaled lengths included
  std::optional<int64_t> original_max_position_embeddings;  // top level (Phi-3); copied into each scaled HfRope that lacks it
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  bool attention_bias = false;  // q, k, v and output of llama; Qwen2 has q, k, v biases without saying so
  bool mlp_bias = false;
  std::string hidden_activation = "silu";
  std::optional<double> query_pre_attn_scalar;  // attention scale is its -1/2 power
  std::optional<double> attn_logit_softcapping;
  std::optional<double> final_logit_softcapping;
  bool use_bidirectional_attention = false;
  std::optional<std::string> torch_dtype;  // `torch_dtype` or `dtype`
  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_ids;

  int64_t sliding_window = 0;            // W of the sliding layers; 0 = they see everything
  std::vector<std::string> layer_types;  // one a layer: "full_attention", "sliding_attention" or the file's own name
  std::map<std::string, HfRope> rope;    // one for each name in layer_types

  std::vector<std::string> warnings;  // accepted, but worth a word: defaults taken, two values for one key

  bool is_sliding(int64_t layer) const { return layer_types[static_cast<size_t>(layer)] == "sliding_attention"; }
  const HfRope& rope_of(int64_t layer) const { return rope.at(layer_types[static_cast<size_t>(layer)]); }
};

// `name` stands for the path in messages. A `text_config` is read in place of the top level, which stands in for what it lacks
// of tie_word_embeddings, torch_dtype, architectures and token ids. Errors: kCorrupt, naming file, full key path, expected and
// found; kTooLarge (size, depth).
Result<HfConfig> parse_hf_config(std::string_view json, const std::string& name);
// A config file, or a folder with config.json. Errors also: kNotFound, kIo.
Result<HfConfig> load_hf_config(const std::string& path);

}  // namespace ropewalk
