// One worker's part of a VectorTerm: for a block of queries and a tile of keys, a row of biases for each row of the block.
#pragma once

#include <cstdint>

#include "attention/vector_tables.h"
#include "base/aligned.h"

namespace ropewalk {

class VectorRows {
 public:
  // `block` queries at most. Errors: kTooLarge.
  static Result<VectorRows> make(const VectorTables& tables, const AttentionInputs& inputs, const AttentionShape& shape,
                                 const AttentionKernels& kernels, int64_t block);

  // Queries [begin, end) of the heads that share key head `head`; raw [query][group][D].
  void start(int head, int64_t begin, int64_t end, const float* raw);
  // bias[row], row = query * group + head of the group: biases of the tile's columns in log2 units, readable for a whole tile.
  // False: this tile must be done pair by pair.
  bool take(int64_t tile, const float** bias);

 private:
  // The e of the block's pairs with the tile: of the first query's (largest) to the last one's.
  int64_t first_e(int64_t query) const;
  void pack_queries(const float* raw);
  const float* query_part(int h, int64_t query);  // null: into its row of built_
  void slide(int64_t low, int64_t high);
  void add_near_keys(int h);
  float* built(int64_t query, int h) { return built_ + (query * group_ + h) * kWeightStride; }

  const VectorTables* tables_ = nullptr;
  const AttentionInputs* in_ = nullptr;
  const AttentionKernels* kernels_ = nullptr;
  int dim_ = 0, group_ = 1;
  int64_t block_ = 0;         // queries, rounded up to a register tile
  int64_t depth_stride_ = 0;  // of a packed row
  int64_t y_stride_ = 0, z_stride_ = 0;

  AlignedBuffer<float> scratch_;
  float* queries_ = nullptr;    // [group][block_][depth_stride_]: q + v, packed
  float* with_bias_ = nullptr;  // [block_][D]
  float* y_ = nullptr;          // [group][block_][y_stride_]: products with all rows of a, or with the e in [low_, high_)
  float* constant_ = nullptr;   // [group][block_][kWeightStride]: the product with one row of a, repeated
  float* built_ = nullptr;      // [block_][group][kWeightStride]
  float* keys_ = nullptr;       // [kKeyTile + a register tile][depth_stride_]: the tile's keys, packed like queries
  float* z_ = nullptr;          // [kSome keys + a register tile][z_stride_]: their products with rows of b

  int head_ = 0;
  int64_t begin_ = 0, end_ = 0;
  int64_t first_key_ = 0;  // position of the tile's first key
  int64_t cols_ = 0;
  int64_t low_ = 0, high_ = 0;  // by distance: the e whose products y_ holds
  int64_t constant_row_ = -1;   // what constant_ holds
  bool constant_now_ = false;
};

}  // namespace ropewalk
