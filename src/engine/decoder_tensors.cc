#include "engine/decoder_tensors.h"

#include <fmt/ranges.h>

#include <array>
#include <unordered_set>

#include "base/fail.h"

namespace ropewalk {
namespace {

class Binder {
 public:
  explicit Binder(const TensorSource& tensors) : tensors_(tensors) {}

  Result<const StoredTensor*> find(const std::string& name, const std::vector<int64_t>& shape, bool required) {
    const StoredTensor* tensor = tensors_.find(name);
    if (tensor == nullptr) {
      if (!required) return static_cast<const StoredTensor*>(nullptr);
      return fail(ErrorCode::kNotFound, "[engine] {}: expected a tensor {} of shape [{}], but got none of that name",
                  tensors_.path(), name, fmt::join(shape, ", "));
    }
    if (tensor->shape != shape) {
      return fail(ErrorCode::kCorrupt, "[engine] {}: tensor {}: expected shape [{}], but got [{}]", tensors_.path(), name,
                  fmt::join(shape, ", "), fmt::join(tensor->shape, ", "));
    }
    used_.insert(tensor);
    return tensor;
  }

  // Errors when a tensor below `prefix` was not asked for.
  Result<void> all_used(std::string_view prefix) const {
    for (const StoredTensor& tensor : tensors_.tensors()) {
      const std::string_view name = tensor.name;
      // Old Hugging Face exports save the frequencies, which the config says better.
      if (!name.starts_with(prefix) || used_.contains(&tensor) || name.ends_with("rotary_emb.inv_freq")) continue;
      return fail(
          ErrorCode::kUnsupported,
          "[engine] {}: tensor {}: expected only tensors that this architecture reads, but got one that would be left out",
          tensors_.path(), name);
    }
    return {};
  }

 private:
  const TensorSource& tensors_;
  std::unordered_set<const StoredTensor*> used_;
};

enum class Need : uint8_t { kNever, kOptional, kRequired };

struct Role {
  const StoredTensor* LayerSpec::*slot;
  const char* gguf;
  const char* hf;
  std::vector<int64_t> shape;
  Need need;
};

std::vector<Role> layer_roles(const ModelSpec& s, const DecoderTraits& traits) {
  const int64_t c = s.width, f = s.ffn_width, d = s.head_dim, q = int64_t{s.heads} * d, kv = int64_t{s.kv_heads} * d;
  const Need bias = traits.qkv_bias ? Need::kRequired : Need::kOptional;
  const Need qk_norm = traits.qk_norm ? Need::kRequired : Need::kNever;
  const Need post = traits.post_norms ? Need::kRequired : Need::kNever;
  // Hugging Face calls the norm before the feed-forward by another name where there are norms after the blocks as well.
  const char* hf_ffn_norm = traits.post_norms ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight";
  return {
      {&LayerSpec::attn_norm, "attn_norm.weight", "input_layernorm.weight", {c}, Need::kRequired},
      {&LayerSpec::wq, "attn_q.weight", "self_attn.q_proj.weight", {q, c}, Need::kRequired},
      {&LayerSpec::wk, "attn_k.weight", "self_attn.k_proj.weight", {kv, c}, Need::kRequired},
      {&LayerSpec::wv, "attn_v.weight", "self_attn.v_proj.weight", {kv, c}, Need::kRequired},
      {&LayerSpec::bq, "attn_q.bias", "self_attn.q_proj.bias", {q}, bias},
      {&LayerSpec::bk, "attn_k.bias", "self_attn.k_proj.bias", {kv}, bias},
      {&LayerSpec::bv, "attn_v.bias", "self_attn.v_proj.bias", {kv}, bias},
      {&LayerSpec::q_norm, "attn_q_norm.weight", "self_attn.q_norm.weight", {d}, qk_norm},
      {&LayerSpec::k_norm, "attn_k_norm.weight", "self_attn.k_norm.weight", {d}, qk_norm},
      {&LayerSpec::wo, "attn_output.weight", "self_attn.o_proj.weight", {c, q}, Need::kRequired},
      {&LayerSpec::post_attn_norm, "post_attention_norm.weight", "post_attention_layernorm.weight", {c}, post},
      {&LayerSpec::ffn_norm, "ffn_norm.weight", hf_ffn_norm, {c}, Need::kRequired},
      {&LayerSpec::w_gate, "ffn_gate.weight", "mlp.gate_proj.weight", {f, c}, Need::kRequired},
      {&LayerSpec::w_up, "ffn_up.weight", "mlp.up_proj.weight", {f, c}, Need::kRequired},
      {&LayerSpec::w_down, "ffn_down.weight", "mlp.down_proj.weight", {c, f}, Need::kRequired},
      {&LayerSpec::post_ffn_norm, "post_ffw_norm.weight", "post_feedforward_layernorm.weight", {c}, post},
  };
}

// Text models, and the text part of models with several parts.
std::string hf_prefix(const TensorSource& tensors) {
  for (const char* prefix : {"model.", "language_model.model.", "model.language_model."}) {
    if (tensors.find(std::string(prefix) + "embed_tokens.weight") != nullptr) return prefix;
  }
  return "model.";
}

}  // namespace

Result<void> bind_decoder_tensors(const ModelSource& source, const DecoderTraits& traits, ModelSpec& spec) {
  const bool gguf = source.gguf != nullptr;
  const std::string prefix = gguf ? "" : hf_prefix(*source.tensors);
  Binder binder(*source.tensors);
  const std::vector<int64_t> table = {spec.vocabulary, spec.width};
  ROPEWALK_TRY(spec.token_embedding, binder.find(prefix + (gguf ? "token_embd.weight" : "embed_tokens.weight"), table, true));
  ROPEWALK_TRY(spec.output_norm, binder.find(prefix + (gguf ? "output_norm.weight" : "norm.weight"), {spec.width}, true));
  std::string head = gguf ? "output.weight" : "lm_head.weight";
  if (!gguf && prefix == "language_model.model.") head = "language_model." + head;
  ROPEWALK_TRY(spec.output, binder.find(head, table, false));

  const std::string layers = gguf ? "blk." : prefix + "layers.";
  const std::vector<Role> roles = layer_roles(spec, traits);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    for (const Role& role : roles) {
      if (role.need == Need::kNever) continue;
      const std::string name = fmt::format("{}{}.{}", layers, i, gguf ? role.gguf : role.hf);
      ROPEWALK_TRY(spec.layers[i].*role.slot, binder.find(name, role.shape, role.need == Need::kRequired));
    }
  }
  if (spec.output == nullptr) spec.output = spec.token_embedding;
  return binder.all_used(layers);
}

}  // namespace ropewalk
