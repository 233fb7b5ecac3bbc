// Products of a few rows straight from the blocks of the file: each block of weights is expanded into the first-level cache and
// used at once, so that generating a token reads the file's bytes once and needs no expanded copy.
#pragma once

#include <cstdint>
#include <span>

#include "base/parallel.h"
#include "engine/layer.h"

namespace ropewalk {

constexpr int64_t kFewRows = 8;

// out [rows][N] = a [rows][K] W^T (+=), rows <= kFewRows, N = all ranges stacked. Threads share the rows of W.
void multiply_stored(std::span<const RowRange> parts, const float* a, int64_t rows, bool accumulate, float* out,
                     Threads threads);

class StoredProducts : public LayerProducts {
 public:
  StoredProducts(const ModelSpec& spec, const LayerSpec& layer, Threads threads)
      : spec_(spec), layer_(layer), threads_(threads) {}
  void multiply(LayerMatrix which, const float* a, int64_t rows, bool accumulate, float* out, Workspace& work) const override;

 private:
  const ModelSpec& spec_;
  const LayerSpec& layer_;
  Threads threads_;
};

}  // namespace ropewalk
