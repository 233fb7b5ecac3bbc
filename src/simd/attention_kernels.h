// The inner loops of tiled attention, one set for every SIMD target and product type. They know matrices, not positions or
// masks: src/attention decides which rows see which columns, packs, and calls these.
//
// Vocabulary: a block has `rows` rows, one for each (query, head that shares the key head); a key tile has kKeyTile columns.
// Both products of attention have one shape: A [rows][depth] times a panel B [depth][panel], an element of A being broadcast.
// An element is 4 bytes: a float, or (bf16) a pair of bf16 that one instruction multiplies and adds: two dims in q.k, two keys
// in p.v.
#pragma once

#include <cstdint>
#include <vector>

#include "ropewalk/dtype.h"

namespace ropewalk {

inline constexpr int kKeyTile = 256;                 // keys of a tile: a multiple of every panel
inline constexpr int kMaxPanel = 64;                 // columns of a panel, at most
inline constexpr int kMaxLanes = 16;                 // partial sums kept for a row, at most
inline constexpr int kWeightStride = kKeyTile + 16;  // 4-byte elements between rows of weights; not a power of two: cache sets
inline constexpr int kMaxHeadDim = 512;
inline constexpr float kNoMaximum = -3.402823466e+38F;  // running maximum of a row that has seen no key

// The state of a block of rows while it passes over key tiles. rows is a multiple of the set's row_tile; rows added to fill up
// may hold anything finite.
struct RowBlock {
  int rows = 0;
  int depth = 0;            // elements of a row of q
  const void* q = nullptr;  // [rows][q_stride]
  int64_t q_stride = 0;
  void* weights = nullptr;   // [rows][kWeightStride]: exp2(score - maximum) of the current tile
  float* out = nullptr;      // [rows][out_stride]: sum of weights times values
  int64_t out_stride = 0;    // a multiple of the panel
  float* maximum = nullptr;  // [rows] M, an integer in log2 units, so that a change of it scales by a power of two: exactly
  float* sums = nullptr;     // [rows][kMaxLanes] partial sums of the weights
  // Null, or [rows]: bias[r][col], in log2 units, is added to the score of a column of the tile. A row of it may be read to
  // the end of the last panel.
  const float* const* bias = nullptr;
  const int32_t* first = nullptr;  // [rows] a row sees the columns [first, last) of the current tile; first >= last: none
  const int32_t* last = nullptr;
};

// How a row is rotated while it is packed. Null cos: it is not, but its planes are put in order all the same.
struct RowRotation {
  const float* cos = nullptr;  // [rows][planes]
  const float* sin = nullptr;
  int planes = 0;
  int begin = 0;             // first dim of the slice; planes * 2 dims rotate
  bool interleaved = false;  // planes are (2i, 2i + 1); else (i, i + planes)
};

// `rows` rows of `dim` elements, `stride` elements apart.
struct RowSource {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t stride = 0;
  int rows = 0;
  int dim = 0;
};

// Packed order of dims inside q and k is private to the set (the planes of an interleaved rotation come out as halves: a dot
// product does not mind, as long as q and k agree), so q and k are packed with the same RowRotation::begin, planes and
// interleaved.
struct AttentionKernels {
  const char* name;  // "f32", "bf16 emulated", "bf16 vdpbf16ps", "bf16 AMX"
  int row_tile;      // rows of a register tile
  int panel;         // columns of a panel
  int pair;          // values in one element: 1 (f32) or 2 (bf16)
  int depth_step;    // both products run over a multiple of so many elements: q, keys and values are filled up with 0 to it

  // One pass of scores and weights: t = c * (q.k) + bias for the visible columns, weights = exp2(t - M), sums += weights; M is
  // raised, and everything that depends on it rescaled, where a t exceeds M + 8. Weights outside a register tile's visible
  // columns stay unwritten.
  void (*score_weights)(const RowBlock& block, const void* keys, float c);
  // The general way, first half: scores[r * stride + col] = c * (q.k) for columns [0, cols), of one tile or of several behind
  // each other, rounded up to whole panels. scores and stride are aligned as AlignedBuffer's memory and in 16s.
  void (*scores)(const RowBlock& block, const void* keys, int cols, float c, float* scores, int64_t stride);
  // ... second half: scores in natural units, -inf = hidden; writes weights of columns [0, kKeyTile) (0 from cols on) and,
  // where asked, the weights as floats back into scores. NaN or +inf among the scores makes the row's sum NaN.
  void (*weights)(const RowBlock& block, float* scores, int cols, bool keep_weights);
  // out += weights * values, over the visible columns of each register tile.
  void (*accumulate)(const RowBlock& block, const void* values, int dim);

  // [panels][depth][panel]; source.rows <= kKeyTile, filled up with 0 to a whole panel. bad[row] is set to 1 for a row with NaN
  // or infinity, which is packed as 0; true when there is one.
  bool (*pack_keys)(const RowSource& source, const RowRotation& rotation, void* out, uint8_t* bad);
  // [panels of dims][kKeyTile / pair][panel], filled up to a whole depth step. Elements that are NaN or infinite are packed
  // as 0 and bad[row] is set, as above.
  bool (*pack_values)(const RowSource& source, void* out, uint8_t* bad);
  // [rows][out_stride]; row r is multiplied by factor[r] after the rotation.
  bool (*pack_queries)(const RowSource& source, const RowRotation& rotation, const float* factor, void* out, int64_t out_stride,
                       uint8_t* bad);
  // Rows as f32, rotation and all left out.
  void (*to_f32)(const RowSource& source, float* out, int64_t out_stride);
  // scores = cap * tanh(scores / cap).
  void (*soft_cap)(float* scores, int64_t count, float cap);
};

// Elements of a row of packed q, and of a packed key tile and value tile.
inline int packed_depth(const AttentionKernels& kernels, int dim) {
  const int step = kernels.pair * kernels.depth_step;
  return (dim + step - 1) / step * kernels.depth_step;
}
inline int64_t packed_dim(const AttentionKernels& kernels, int dim) {
  return int64_t{(dim + kernels.panel - 1) / kernels.panel} * kernels.panel;
}
inline int64_t packed_key_tile(const AttentionKernels& kernels, int dim) {
  return int64_t{packed_depth(kernels, dim)} * kKeyTile;
}
inline int64_t packed_value_tile(const AttentionKernels& kernels, int dim) {
  return packed_dim(kernels, dim) * (kKeyTile / kernels.pair);
}

// The set for this machine, the fastest first: for bf16 the matrix unit (AMX), then vdpbf16ps, then the same code with that one
// instruction emulated (slower than f32: meant for tests and for equal results, not for speed).
const AttentionKernels& attention_kernels(DType compute);

// For tests: every set that this machine can run under the SIMD target in force, and one of them put in the place of
// attention_kernels(bf16). Null: the machine's own choice again.
std::vector<const AttentionKernels*> bf16_attention_sets();
void set_bf16_attention_for_test(const AttentionKernels* kernels);

}  // namespace ropewalk
