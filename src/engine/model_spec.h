// What a model is, as data. Architectures (engine/models/) only fill this; the forward passes only read it.
//
// Symbols: C width, V vocabulary, F feed-forward width, H / Hkv query / key-value heads, D head size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/tensor.h"
#include "ropewalk/encoding.h"
#include "ropewalk/rotary.h"

namespace ropewalk {

enum class Activation : uint8_t { kSilu, kGeluTanh };

// The position scheme of one layer as the model's file says it, before any setting.
struct LayerPosition {
  std::optional<RotarySchedule> rotary;        // as trained, the file's own scaling included; absent: the layer does not rotate
  std::optional<RotarySchedule> rotary_plain;  // the bare base, any scaling in the file removed
  std::optional<RotarySchedule> rotary_long;   // LongRoPE: replaces `rotary` in sequences longer than context_original
  Reach reach;
  bool global = true;  // false: a local (sliding-window) layer of a model that has both kinds
};

struct LayerSpec {
  // Weights, all [rows = outputs][cols = inputs]; null = the model has none.
  const StoredTensor* attn_norm = nullptr;  // [C]
  const StoredTensor* wq = nullptr;         // [H D][C]
  const StoredTensor* wk = nullptr;         // [Hkv D][C]
  const StoredTensor* wv = nullptr;         // [Hkv D][C]
  const StoredTensor* bq = nullptr;         // [H D]
  const StoredTensor* bk = nullptr;
  const StoredTensor* bv = nullptr;
  const StoredTensor* q_norm = nullptr;          // [D]
  const StoredTensor* k_norm = nullptr;          // [D]
  const StoredTensor* wo = nullptr;              // [C][H D]
  const StoredTensor* post_attn_norm = nullptr;  // [C] on the block's output (Gemma)
  const StoredTensor* ffn_norm = nullptr;        // [C]
  const StoredTensor* w_gate = nullptr;          // [F][C]
  const StoredTensor* w_up = nullptr;            // [F][C]
  const StoredTensor* w_down = nullptr;          // [C][F]
  const StoredTensor* post_ffn_norm = nullptr;   // [C]
  LayerPosition position;
};

struct ModelSpec {
  std::string architecture;  // "llama", "qwen2", "gemma3"
  std::string name;
  int64_t width = 0;                          // C
  int64_t vocabulary = 0;                     // V
  int64_t ffn_width = 0;                      // F
  int heads = 0, kv_heads = 0, head_dim = 0;  // H, Hkv, D
  double norm_epsilon = 1e-5;
  bool norm_plus_one = false;  // RMS norm multiplies by (1 + w): Gemma in Hugging Face files; GGUF stores 1 + w
  double embedding_scale = 1;  // Gemma: sqrt(C)
  Activation activation = Activation::kSilu;
  double attention_scale = 0;  // 0 = 1/sqrt(D)
  double attention_softcap = 0, logit_softcap = 0;
  int64_t context_trained = 0;                    // L0: the length that the frequencies, scaling included, were trained for
  int64_t context_original = 0;                   // the length before the file's own scaling; context_trained when it has none
  int64_t context_claimed = 0;                    // what the file says a user may ask for
  std::string file_rule;                          // scaling in the file that follows the sequence, as a setting; empty = none
  std::vector<std::string> notes;                 // keys without effect, assumptions: for the reader, never dropped
  const StoredTensor* token_embedding = nullptr;  // [V][C]
  const StoredTensor* output_norm = nullptr;      // [C]
  const StoredTensor* output = nullptr;           // [V][C]; the same tensor as token_embedding when tied
  std::vector<LayerSpec> layers;
};

}  // namespace ropewalk
