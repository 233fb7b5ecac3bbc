// What a pass will cost, before it starts, and applying a setting to a model.
#include <algorithm>

#include "base/fail.h"
#include "engine/forward.h"
#include "engine/packed_weights.h"

namespace ropewalk {

Result<AppliedSetting> apply_setting(const Setting& setting, const ModelSpec& spec, int64_t length) {
  const Setting* used = &setting;
  Setting from_file;
  const bool none = setting.rules.size() == 1 && setting.rules.front().name == "none";
  if (!spec.file_rule.empty()) {
    if (none) {
      ROPEWALK_TRY(from_file, parse_setting("plain+" + spec.file_rule));
      used = &from_file;
    } else if (setting.rules.empty() || setting.rules.front().name != "plain") {
      return fail(
          ErrorCode::kUnsupported,
          "[setting] {}: expected a setting that starts with plain+, because this model's own scaling ({}) follows the length "
          "of the sequence and cannot be scaled again, but got a rule on top of it",
          setting.text, spec.file_rule);
    }
  }
  std::vector<RotaryLayer> layers;
  for (const LayerSpec& layer : spec.layers) {
    const LayerPosition& p = layer.position;
    const std::optional<RotarySchedule>& trained = p.rotary_long && length > spec.context_original ? p.rotary_long : p.rotary;
    layers.push_back({trained ? &*trained : nullptr, p.rotary_plain ? &*p.rotary_plain : nullptr, p.global, p.reach});
  }
  ROPEWALK_TRY(AppliedSetting applied, apply_setting(*used, layers, spec.context_trained, spec.context_original, length));
  if (used == &from_file) applied.notes.push_back("none means the file's own scaling: " + from_file.text);
  return applied;
}

int64_t weight_cache_bytes(const ModelSpec& spec, Precision precision) {
  return packed_model_bytes(spec, precision == Precision::kFast && bf16_products());
}

int64_t score_memory(const ModelSpec& spec, int64_t length, const ForwardOptions& options) {
  const bool bf16 = options.precision == Precision::kFast && bf16_products();
  const int64_t q = int64_t{spec.heads} * spec.head_dim, kv = int64_t{spec.kv_heads} * spec.head_dim;
  // Residual stream, q k v, attention's output; attention's packed keys and values and its rotary table; a few numbers a token.
  const int64_t per_token = 4 * (spec.width + qkv_width(spec) + q) + 4 * 2 * kv + 4 * spec.head_dim + 64;
  const int64_t chunk = std::min(spec.vocabulary, kVocabularyChunk);
  const int64_t rows = std::min(length, kBlockRows);
  const int64_t per_thread = 4 * rows * (spec.width + std::max(2 * spec.ffn_width, chunk) + spec.ffn_width);
  const int64_t packed = packed_layer_bytes(spec, bf16) + chunk * spec.width * 4;
  const int64_t kept =
      options.weights != nullptr ? std::min(weight_cache_bytes(spec, options.precision), options.weights->state().budget) : 0;
  int64_t stored = 0;  // pages of the map, once touched
  for (const LayerSpec& l : spec.layers) {
    for (const StoredTensor* t : {l.wq, l.wk, l.wv, l.wo, l.w_gate, l.w_up, l.w_down}) {
      if (t != nullptr) stored += static_cast<int64_t>(t->data.size());
    }
  }
  for (const StoredTensor* t : {spec.token_embedding, spec.output != spec.token_embedding ? spec.output : nullptr}) {
    if (t != nullptr) stored += static_cast<int64_t>(t->data.size());
  }
  constexpr int64_t kProgram = 64 << 20;  // libraries, tokenizer, generated kernels
  return kProgram + stored + length * per_token + std::max(options.threads, 1) * per_thread + packed + kept;
}

double score_flops(const ModelSpec& spec, int64_t length) {
  const auto n = static_cast<double>(length), d = static_cast<double>(spec.head_dim), h = static_cast<double>(spec.heads);
  const double weights = static_cast<double>(packed_model_bytes(spec, false)) / 4;
  double pairs = 0;  // query-key pairs over all layers
  for (const LayerSpec& layer : spec.layers) {
    const double w = layer.position.reach.window > 0 ? std::min(n, static_cast<double>(layer.position.reach.window)) : n;
    pairs += w * (w + 1) / 2 + (n - w) * w;
  }
  return 2 * n * weights + 4 * d * h * pairs;
}

}  // namespace ropewalk
