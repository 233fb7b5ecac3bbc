#include "engine/gguf_sizes.h"

#include <string_view>

#include "base/fail.h"

namespace ropewalk {
namespace {

constexpr int64_t kMaxWidth = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxContext = int64_t{1} << 40;
constexpr int64_t kMaxHeadDim = 512;  // what attention takes

}  // namespace

Result<void> read_gguf_sizes(const GgufFile& file, ModelSpec& spec) {
  const auto key = [&](std::string_view name) { return spec.architecture + "." + std::string(name); };
  if (file.has("general.name")) {
    ROPEWALK_TRY(spec.name, file.text("general.name"));
  }
  ROPEWALK_TRY(spec.width, file.integer(key("embedding_length"), 1, kMaxWidth));
  ROPEWALK_TRY(spec.ffn_width, file.integer(key("feed_forward_length"), 1, kMaxWidth));
  ROPEWALK_TRY(const int64_t layers, file.integer(key("block_count"), 1, kMaxLayers));
  ROPEWALK_TRY(const int64_t heads, file.integer(key("attention.head_count"), 1, kMaxWidth));
  int64_t kv_heads = heads;
  if (file.has(key("attention.head_count_kv"))) {
    ROPEWALK_TRY(kv_heads, file.integer(key("attention.head_count_kv"), 1, heads));
  }
  if (heads % kv_heads != 0) {
    return fail(ErrorCode::kCorrupt, "[engine] {}: key {}: expected a divisor of the {} heads, but got {}", file.path(),
                key("attention.head_count_kv"), heads, kv_heads);
  }
  int64_t head_dim = spec.width / heads;
  if (file.has(key("attention.key_length"))) {
    ROPEWALK_TRY(head_dim, file.integer(key("attention.key_length"), 1, kMaxHeadDim));
  }
  if (head_dim < 1 || head_dim > kMaxHeadDim) {
    return fail(ErrorCode::kCorrupt,
                "[engine] {}: key {}: expected heads of 1 to {} dims, but {} heads in a width of {} have {}", file.path(),
                key("attention.head_count"), kMaxHeadDim, heads, spec.width, head_dim);
  }
  if (file.has(key("attention.value_length"))) {
    ROPEWALK_TRY(const int64_t value_length, file.integer(key("attention.value_length"), 1, kMaxHeadDim));
    if (value_length != head_dim) {
      return fail(ErrorCode::kUnsupported, "[engine] {}: key {}: expected the head size {}, but got {}", file.path(),
                  key("attention.value_length"), head_dim, value_length);
    }
  }
  spec.heads = static_cast<int>(heads);
  spec.kv_heads = static_cast<int>(kv_heads);
  spec.head_dim = static_cast<int>(head_dim);
  ROPEWALK_TRY(spec.norm_epsilon, file.number(key("attention.layer_norm_rms_epsilon")));
  if (!(spec.norm_epsilon >= 0 && spec.norm_epsilon < 1)) {
    return fail(ErrorCode::kCorrupt, "[engine] {}: key {}: expected a number from 0 to 1, but got {}", file.path(),
                key("attention.layer_norm_rms_epsilon"), spec.norm_epsilon);
  }
  for (const auto& [name, slot] : {std::pair{"attn_logit_softcapping", &spec.attention_softcap},
                                   std::pair{"final_logit_softcapping", &spec.logit_softcap}}) {
    if (!file.has(key(name))) continue;
    ROPEWALK_TRY(*slot, file.number(key(name)));
    if (!(*slot >= 0 && *slot < 1e9)) {
      return fail(ErrorCode::kCorrupt, "[engine] {}: key {}: expected a number from 0 to 1e9, but got {}", file.path(),
                  key(name), *slot);
    }
  }
  if (file.has(key("attention.scale"))) {
    ROPEWALK_TRY(spec.attention_scale, file.number(key("attention.scale")));
    if (!(spec.attention_scale > 0 && spec.attention_scale < 1e9)) {
      return fail(ErrorCode::kCorrupt, "[engine] {}: key {}: expected a number above 0, but got {}", file.path(),
                  key("attention.scale"), spec.attention_scale);
    }
  }
  ROPEWALK_TRY(spec.context_claimed, file.integer(key("context_length"), 1, kMaxContext));
  spec.context_trained = spec.context_original = spec.context_claimed;

  // The key vocab_size is often missing; the embedding is the truth that a tokenizer has to fit.
  const StoredTensor* embedding = file.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return fail(embedding == nullptr ? ErrorCode::kNotFound : ErrorCode::kCorrupt,
                "[engine] {}: tensor token_embd.weight: expected a matrix [vocabulary, {}], but got {}", file.path(),
                spec.width, embedding == nullptr ? "no such tensor" : "another number of dimensions");
  }
  spec.vocabulary = embedding->shape[0];
  if (spec.vocabulary < 1 || spec.vocabulary > (int64_t{1} << 30)) {
    return fail(ErrorCode::kCorrupt, "[engine] {}: tensor token_embd.weight: expected 1 to 2^30 rows, but got {}", file.path(),
                spec.vocabulary);
  }
  spec.layers.resize(static_cast<size_t>(layers));
  return {};
}

}  // namespace ropewalk
