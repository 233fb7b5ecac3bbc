#include "engine/layer.h"

#include <algorithm>

#include "base/fail.h"
#include "engine/weights.h"
#include "simd/ops.h"

namespace ropewalk {

int64_t qkv_width(const ModelSpec& spec) { return (int64_t{spec.heads} + 2 * int64_t{spec.kv_heads}) * spec.head_dim; }

Result<std::vector<LayerVectors>> expand_vectors(const ModelSpec& spec, const std::string& path) {
  std::vector<LayerVectors> all;
  for (const LayerSpec& layer : spec.layers) {
    LayerVectors v;
    ROPEWALK_TRY(v.attn_norm, expand_vector(layer.attn_norm, path));
    ROPEWALK_TRY(v.q_norm, expand_vector(layer.q_norm, path));
    ROPEWALK_TRY(v.k_norm, expand_vector(layer.k_norm, path));
    ROPEWALK_TRY(v.post_attn_norm, expand_vector(layer.post_attn_norm, path));
    ROPEWALK_TRY(v.ffn_norm, expand_vector(layer.ffn_norm, path));
    ROPEWALK_TRY(v.post_ffn_norm, expand_vector(layer.post_ffn_norm, path));
    if (layer.bq != nullptr || layer.bk != nullptr || layer.bv != nullptr) {
      const int64_t q = int64_t{spec.heads} * spec.head_dim, kv = int64_t{spec.kv_heads} * spec.head_dim;
      int64_t at = 0;
      v.qkv_bias.resize(static_cast<size_t>(q + 2 * kv), 0.0F);
      for (const auto& [bias, count] : {std::pair{layer.bq, q}, std::pair{layer.bk, kv}, std::pair{layer.bv, kv}}) {
        if (bias != nullptr) ROPEWALK_CHECK_OK(expand_rows(*bias, 0, 1, path, v.qkv_bias.data() + at));
        at += count;
      }
    }
    all.push_back(std::move(v));
  }
  return all;
}

Result<std::vector<Workspace>> make_workspaces(const ModelSpec& spec, int64_t rows, int64_t columns, int threads) {
  std::vector<Workspace> all;
  for (int i = 0; i < threads; ++i) {
    Workspace w;
    ROPEWALK_TRY(w.normed, AlignedBuffer<float>::make(rows * spec.width));
    ROPEWALK_TRY(w.wide, AlignedBuffer<float>::make(rows * std::max({columns, 2 * spec.ffn_width, spec.width})));
    ROPEWALK_TRY(w.active, AlignedBuffer<float>::make(rows * spec.ffn_width));
    all.push_back(std::move(w));
  }
  return all;
}

namespace {

// out = norm(x) for each row.
void norm_rows(const ModelSpec& spec, const std::vector<float>& weight, const float* x, int64_t rows, float* out) {
  const float plus = spec.norm_plus_one ? 1.0F : 0.0F;
  const int64_t n = spec.width;
  for (int64_t r = 0; r < rows; ++r) {
    ops::rms_norm(x + r * n, weight.data(), plus, static_cast<float>(spec.norm_epsilon), n, out + r * n);
  }
}

// x += product, through a norm where the model has one after the block.
void add_product(const ModelSpec& spec, const LayerProducts& products, LayerMatrix which, const std::vector<float>& post_norm,
                 const float* a, int64_t rows, float* x, Workspace& work) {
  if (post_norm.empty()) return products.multiply(which, a, rows, true, x, work);
  float* y = work.normed.data();
  products.multiply(which, a, rows, false, y, work);
  norm_rows(spec, post_norm, y, rows, y);
  ops::add_to(y, rows * spec.width, x);
}

}  // namespace

void project_block(const ModelSpec& spec, const LayerVectors& vectors, const LayerProducts& products, const float* x,
                   int64_t rows, float* qkv, Workspace& work) {
  norm_rows(spec, vectors.attn_norm, x, rows, work.normed.data());
  products.multiply(LayerMatrix::kQkv, work.normed.data(), rows, false, qkv, work);
  if (vectors.qkv_bias.empty() && vectors.q_norm.empty()) return;
  const int64_t n = qkv_width(spec), d = spec.head_dim;
  const float plus = spec.norm_plus_one ? 1.0F : 0.0F;
  const auto epsilon = static_cast<float>(spec.norm_epsilon);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = qkv + r * n;
    if (!vectors.qkv_bias.empty()) ops::add_to(vectors.qkv_bias.data(), n, row);
    if (vectors.q_norm.empty()) continue;
    for (int64_t h = 0; h < spec.heads + spec.kv_heads; ++h) {
      const std::vector<float>& weight = h < spec.heads ? vectors.q_norm : vectors.k_norm;
      ops::rms_norm(row + h * d, weight.data(), plus, epsilon, d, row + h * d);
    }
  }
}

void finish_block(const ModelSpec& spec, const LayerVectors& vectors, const LayerProducts& products, const float* o,
                  int64_t rows, float* x, Workspace& work) {
  add_product(spec, products, LayerMatrix::kOutput, vectors.post_attn_norm, o, rows, x, work);
  norm_rows(spec, vectors.ffn_norm, x, rows, work.normed.data());
  products.multiply(LayerMatrix::kGateUp, work.normed.data(), rows, false, work.wide.data(), work);
  const int64_t f = spec.ffn_width;
  const auto gated = spec.activation == Activation::kSilu ? ops::silu_multiply : ops::gelu_tanh_multiply;
  for (int64_t r = 0; r < rows; ++r) {
    const float* gate = work.wide.data() + r * 2 * f;
    gated(gate, gate + f, f, work.active.data() + r * f);
  }
  add_product(spec, products, LayerMatrix::kDown, vectors.post_ffn_norm, work.active.data(), rows, x, work);
}

RowBlocks make_row_blocks(int64_t total, int64_t limit, int threads) {
  constexpr int64_t kGrain = 16;  // a multiple of the kernels' row tiles
  int64_t count = (total + limit - 1) / limit;
  const int64_t workers = std::max(threads, 1);
  count = (count + workers - 1) / workers * workers;
  const int64_t block = std::max<int64_t>(((total + count - 1) / count + kGrain - 1) / kGrain * kGrain, kGrain);
  RowBlocks blocks;
  blocks.total = total;
  blocks.block = std::min(block, std::max<int64_t>(total, 1));
  blocks.count = (total + blocks.block - 1) / blocks.block;
  return blocks;
}

}  // namespace ropewalk
