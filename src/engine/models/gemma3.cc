// Gemma 3 (text): norms before and after both blocks, norms on the heads of q and k, sliding-window layers with a base of their
// own.
#include <cmath>

#include "base/fail.h"
#include "engine/architecture.h"
#include "engine/decoder_tensors.h"
#include "engine/gguf_sizes.h"
#include "engine/hf_sizes.h"
#include "engine/rope_scaling.h"

namespace ropewalk {
namespace {

// The base of the sliding layers is the architecture's where a GGUF file does not say it (most do not).
constexpr double kLocalBase = 10000;
constexpr double kGlobalBase = 1000000;
constexpr int64_t kPattern = 6;  // every sixth layer is global
constexpr size_t k27BLayers = 62;

// is_local[i], from a period, a flag for each layer, or the architecture's own pattern.
Result<std::vector<bool>> gguf_local_layers(const GgufFile& file, size_t layers) {
  const std::string key = "gemma3.attention.sliding_window_pattern";
  const GgufValue* entry = file.find_key(key);
  std::vector<bool> local(layers);
  if (entry != nullptr) {
    const auto* array = std::get_if<GgufValue::Array>(&entry->value);
    const auto* flags = array == nullptr ? nullptr : std::get_if<std::vector<bool>>(array);
    if (flags != nullptr) {
      if (flags->size() < layers) {
        return fail(ErrorCode::kCorrupt, "[engine] {}: key {}: expected a flag for each of {} layers, but got {}", file.path(),
                    key, layers, flags->size());
      }
      local.assign(flags->begin(), flags->begin() + static_cast<std::ptrdiff_t>(layers));
      return local;
    }
  }
  int64_t period = kPattern;
  if (entry != nullptr) {
    ROPEWALK_TRY(period, file.integer(key, 1, int64_t{1} << 20));
  }
  for (size_t i = 0; i < layers; ++i) local[i] = static_cast<int64_t>(i + 1) % period != 0;
  return local;
}

Result<void> set_gguf_positions(const GgufFile& file, ModelSpec& spec) {
  ROPEWALK_TRY(RopeScaling global, read_gguf_rope(file, "rope.freq_base", Pairing::kHalves, spec));
  if (!file.has("gemma3.rope.freq_base")) global.theta = kGlobalBase;
  RopeScaling local;  // the factor is for the global layers
  local.pairing = global.pairing;
  local.rotary_dim = global.rotary_dim;
  local.theta = kLocalBase;
  if (file.has("gemma3.rope.freq_base_swa")) {
    ROPEWALK_TRY(local.theta, file.number("gemma3.rope.freq_base_swa"));
  }
  ROPEWALK_TRY(const int64_t window, file.integer("gemma3.attention.sliding_window", 1, int64_t{1} << 40));
  ROPEWALK_TRY(const std::vector<bool> is_local, gguf_local_layers(file, spec.layers.size()));
  set_contexts(global, spec.context_claimed, spec);
  LayerPosition far, near;
  ROPEWALK_CHECK_OK(set_rotation(global, spec.head_dim, spec.context_claimed, file.path(), far));
  ROPEWALK_CHECK_OK(set_rotation(local, spec.head_dim, spec.context_claimed, file.path(), near));
  near.reach.window = window;
  near.global = false;
  for (size_t i = 0; i < spec.layers.size(); ++i) spec.layers[i].position = is_local[i] ? near : far;
  return {};
}

}  // namespace

Result<ModelSpec> fill_gemma3(const ModelSource& source) {
  ModelSpec spec;
  spec.architecture = "gemma3";
  spec.activation = Activation::kGeluTanh;
  if (source.gguf != nullptr) {
    ROPEWALK_CHECK_OK(read_gguf_sizes(*source.gguf, spec));
    ROPEWALK_CHECK_OK(set_gguf_positions(*source.gguf, spec));
    // The 27B model scales queries by its width a head, which no key of the file says; every other size by the head size.
    if (spec.attention_scale == 0 && spec.layers.size() == k27BLayers) {
      spec.attention_scale = 1 / std::sqrt(static_cast<double>(spec.width) / spec.heads);
    }
  } else {
    spec.norm_plus_one = true;  // the GGUF converter adds the 1
    ROPEWALK_CHECK_OK(read_hf_sizes(*source.config, spec));
    ROPEWALK_CHECK_OK(set_hf_positions(*source.config, spec));
  }
  // The scale is one f32 number in the reference.
  spec.embedding_scale = static_cast<double>(std::sqrt(static_cast<float>(spec.width)));
  ROPEWALK_CHECK_OK(bind_decoder_tensors(source, {.qk_norm = true, .post_norms = true}, spec));
  return spec;
}

}  // namespace ropewalk
