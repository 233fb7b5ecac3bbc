// The fast path of one layer, a block of rows at a time. Attention itself runs between project_block and finish_block.
//
// Symbols: T tokens of a window, B rows of a block, N = (H + 2 Hkv) D, C width, F feed-forward width.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "engine/model_spec.h"
#include "engine/product.h"
#include "ropewalk/error.h"

namespace ropewalk {

// The vectors of a layer, expanded.
struct LayerVectors {
  std::vector<float> attn_norm, qkv_bias, q_norm, k_norm, post_attn_norm, ffn_norm, post_ffn_norm;  // empty = none
};
Result<std::vector<LayerVectors>> expand_vectors(const ModelSpec& spec, const std::string& path);

// N, the columns of q, k and v side by side.
int64_t qkv_width(const ModelSpec& spec);

enum class LayerMatrix : uint8_t { kQkv, kOutput, kGateUp, kDown };  // [N][C], [C][H D], [2F][C], [C][F]

// One thread's buffers.
struct Workspace {
  AlignedBuffer<float> normed;  // [B][C]
  AlignedBuffer<float> wide;    // [B][max(2F, C, vocabulary chunk)]
  AlignedBuffer<float> active;  // [B][F]
  ProductScratch scratch;
};
Result<std::vector<Workspace>> make_workspaces(const ModelSpec& spec, int64_t rows, int64_t columns, int threads);

// out [rows][outputs] = a [rows][inputs] W^T (+=): by oneDNN from packed weights, or straight from the file's blocks.
class LayerProducts {
 public:
  virtual ~LayerProducts() = default;
  virtual void multiply(LayerMatrix which, const float* a, int64_t rows, bool accumulate, float* out,
                        Workspace& work) const = 0;
};

// qkv [rows][N] = products of norm(x), biases added, heads of q and k normed. x [rows][C].
void project_block(const ModelSpec& spec, const LayerVectors& vectors, const LayerProducts& products, const float* x,
                   int64_t rows, float* qkv, Workspace& work);
// x [rows][C] += output product of o [rows][H D], then x += feed-forward of norm(x).
void finish_block(const ModelSpec& spec, const LayerVectors& vectors, const LayerProducts& products, const float* o,
                  int64_t rows, float* x, Workspace& work);

// T rows in equal blocks of at most `limit`, a multiple of `threads` in number where there are enough rows.
struct RowBlocks {
  int64_t total = 0, block = 0, count = 0;
  int64_t begin(int64_t i) const { return i * block; }
  int64_t rows(int64_t i) const { return i + 1 < count ? block : total - i * block; }
  int64_t tail() const { return rows(count - 1); }
};
RowBlocks make_row_blocks(int64_t total, int64_t limit, int threads);

}  // namespace ropewalk
