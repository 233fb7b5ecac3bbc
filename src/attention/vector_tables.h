// A score term made of products with vectors of the distance (VectorTerm), as one call needs it: the vectors packed like keys,
// and which of them belongs to which distance.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/inputs.h"
#include "base/aligned.h"
#include "base/parallel.h"
#include "simd/attention_kernels.h"

namespace ropewalk {

// One side. Distances are counted down: e = largest - d, so that e rises with the key's position as columns do.
struct VectorSide {
  bool present = false;
  // Rows of the packed table: the term's rows in their order, with `index`; or (by_distance) a row for each e, where the term
  // has about as many rows as there are distances.
  bool by_distance = false;
  int tables = 0;               // 1 (shared by heads) or H
  int64_t rows = 0;             // of a table
  AlignedBuffer<float> packed;  // [tables][rows up to a whole tile][packed depth]
  int64_t table_size = 0;       // elements of one table
  std::vector<int32_t> index;   // [distances + padding] the packed row of e
  const float* table(int head) const { return packed.data() + (tables == 1 ? 0 : head) * table_size; }
};

class VectorTables {
 public:
  // Leaves it empty, so that the term is added tile by tile, where there is no such term or the distances spread too far for
  // their number. scale: what the products are multiplied by. Errors: kTooLarge.
  // fold_key_vector: u joins the query of the content product and not the biases.
  Result<void> make(const AttentionInputs& inputs, const AttentionShape& shape, const AttentionKernels& kernels,
                    PosRange distances, double scale, bool fold_key_vector, const Threads& threads);

  bool empty() const { return term_ == nullptr; }
  bool folds_key_vector() const { return folds_; }
  const VectorTerm& term() const { return *term_; }
  bool consecutive(int64_t tile) const { return consecutive_[static_cast<size_t>(tile)] != 0; }
  int64_t largest() const { return distances_.last; }
  int64_t distances() const { return distances_.last - distances_.first + 1; }
  const VectorSide& query() const { return query_; }
  const VectorSide& key() const { return key_; }
  // Products with keys that do not depend on the query, in log2 units, [S] of a head: k . u; k . (b + u) for the first and for
  // the last row of b. Null where there is no such product.
  const float* key_products(int head) const { return products_.size() == 0 ? nullptr : products_.data() + head * keys_; }
  const float* key_edge(int head, bool last) const { return edges_.data() + (int64_t{head} * 2 + (last ? 1 : 0)) * keys_; }
  float scale_log2() const { return scale_log2_; }

 private:
  Result<void> make_side(VectorTerm::Side which, const AttentionShape& shape, const AttentionKernels& kernels,
                         const Threads& threads, VectorSide& side);
  Result<void> make_products(const AttentionInputs& inputs, const AttentionShape& shape, const AttentionKernels& kernels,
                             const Threads& threads);

  const VectorTerm* term_ = nullptr;
  PosRange distances_;
  float scale_log2_ = 0;
  bool folds_ = false;
  int64_t keys_ = 0;
  std::vector<uint8_t> consecutive_;
  VectorSide query_, key_;
  AlignedBuffer<float> products_;  // [H][S]
  AlignedBuffer<float> edges_;     // [H][2][S]
};

}  // namespace ropewalk
