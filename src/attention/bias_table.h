// A score term that depends on the head and the distance alone, tabulated over the distances that occur.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/inputs.h"
#include "attention/visibility.h"
#include "base/aligned.h"
#include "base/parallel.h"

namespace ropewalk {

class BiasTable {
 public:
  // Leaves the table empty (the term is then added tile by tile) where the distances spread too far for their number, or the
  // term gives NaN or +infinity, which the general way must see. `distances` is distances_of(...). Errors: kTooLarge.
  Result<void> make(const AttentionInputs& inputs, const AttentionShape& shape, PosRange distances, const Threads& threads);

  bool empty() const { return values_.size() == 0; }
  // The keys of the tile stand at consecutive positions, so that a row of it is a row of the table.
  bool consecutive(int64_t tile) const { return consecutive_[static_cast<size_t>(tile)] != 0; }
  // Biases of query position m against the keys from position n on, in log2 units; readable for a whole key tile.
  const float* row(int head, int64_t m, int64_t n) const { return values_.data() + head * stride_ + (largest_ - (m - n)); }

 private:
  AlignedBuffer<float> values_;  // [H][stride_], from the largest distance down
  std::vector<uint8_t> consecutive_;
  int64_t largest_ = 0;
  int64_t stride_ = 0;
};

}  // namespace ropewalk
