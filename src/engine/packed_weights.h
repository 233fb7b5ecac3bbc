// Layers and the output matrix in packed form: made when a pass needs them, kept while a budget allows.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "engine/forward.h"
#include "engine/layer.h"

namespace ropewalk {

class PackedLayer : public LayerProducts {
 public:
  Result<void> assign(const ModelSpec& spec, const LayerSpec& layer, const std::string& path,
                      const PackedMatrix::Options& options);
  // Kernels for every block size of `blocks`.
  Result<void> prepare(const LayerVectors& vectors, const RowBlocks& blocks);
  void multiply(LayerMatrix which, const float* a, int64_t rows, bool accumulate, float* out, Workspace& work) const override;
  int64_t bytes() const;

 private:
  PackedMatrix& matrix(LayerMatrix which) { return matrices_[static_cast<size_t>(which)]; }
  std::array<PackedMatrix, 4> matrices_;
};

// Rows of a block of products: its feed-forward intermediate should stay in the cache between two products.
constexpr int64_t kBlockRows = 256;

// Rows of the output matrix that are expanded and multiplied at a time.
constexpr int64_t kVocabularyChunk = 4096;

struct WeightCache::State {
  int64_t budget = 0, used = 0;
  const Model* model = nullptr;  // whose weights these are
  bool bf16 = false;
  std::map<size_t, PackedLayer> layers;
  std::map<int64_t, PackedMatrix> chunks;  // by first row
};

// Hands out packed weights: from the cache, into the cache while its budget lasts, else into one spare that the next call
// reuses.
class WeightSource {
 public:
  WeightSource(const Model& model, const ForwardOptions& options, int64_t block_rows);
  Result<PackedLayer*> layer(size_t index);
  Result<PackedMatrix*> output(int64_t first, int64_t count);
  int64_t block_rows() const { return options_.block_rows; }  // what workspaces hold

 private:
  bool keep(int64_t bytes);
  const Model& model_;
  WeightCache::State* cache_ = nullptr;
  PackedMatrix::Options options_;
  PackedLayer spare_layer_;
  PackedMatrix spare_chunk_;
};

// Bytes of a packed layer and of the whole packed model.
int64_t packed_layer_bytes(const ModelSpec& spec, bool bf16);
int64_t packed_model_bytes(const ModelSpec& spec, bool bf16);

}  // namespace ropewalk
