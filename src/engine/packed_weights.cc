#include "engine/packed_weights.h"

#include "base/fail.h"

namespace ropewalk {

Result<void> PackedLayer::assign(const ModelSpec& spec, const LayerSpec& l, const std::string& path,
                                 const PackedMatrix::Options& options) {
  const int64_t q = int64_t{spec.heads} * spec.head_dim, kv = int64_t{spec.kv_heads} * spec.head_dim, f = spec.ffn_width;
  ROPEWALK_CHECK_OK(
      matrix(LayerMatrix::kQkv).assign(std::array<RowRange, 3>{{{l.wq, 0, q}, {l.wk, 0, kv}, {l.wv, 0, kv}}}, path, options));
  ROPEWALK_CHECK_OK(matrix(LayerMatrix::kOutput).assign(std::array<RowRange, 1>{{{l.wo, 0, spec.width}}}, path, options));
  ROPEWALK_CHECK_OK(
      matrix(LayerMatrix::kGateUp).assign(std::array<RowRange, 2>{{{l.w_gate, 0, f}, {l.w_up, 0, f}}}, path, options));
  return matrix(LayerMatrix::kDown).assign(std::array<RowRange, 1>{{{l.w_down, 0, spec.width}}}, path, options);
}

Result<void> PackedLayer::prepare(const LayerVectors& vectors, const RowBlocks& blocks) {
  for (const int64_t rows : {blocks.block, blocks.tail()}) {
    ROPEWALK_CHECK_OK(matrix(LayerMatrix::kQkv).prepare(rows, false));
    ROPEWALK_CHECK_OK(matrix(LayerMatrix::kOutput).prepare(rows, vectors.post_attn_norm.empty()));
    ROPEWALK_CHECK_OK(matrix(LayerMatrix::kGateUp).prepare(rows, false));
    ROPEWALK_CHECK_OK(matrix(LayerMatrix::kDown).prepare(rows, vectors.post_ffn_norm.empty()));
  }
  return {};
}

void PackedLayer::multiply(LayerMatrix which, const float* a, int64_t rows, bool accumulate, float* out,
                           Workspace& work) const {
  matrices_[static_cast<size_t>(which)].multiply(a, rows, accumulate, out, work.scratch);
}

int64_t PackedLayer::bytes() const {
  int64_t sum = 0;
  for (const PackedMatrix& m : matrices_) sum += m.bytes();
  return sum;
}

WeightCache::WeightCache(int64_t budget_bytes) : state_(std::make_unique<State>()) { state_->budget = budget_bytes; }
WeightCache::WeightCache(WeightCache&&) noexcept = default;
WeightCache& WeightCache::operator=(WeightCache&&) noexcept = default;
WeightCache::~WeightCache() = default;
int64_t WeightCache::bytes() const { return state_->used; }
WeightCache::State& WeightCache::state() { return *state_; }

WeightSource::WeightSource(const Model& model, const ForwardOptions& options, int64_t block_rows) : model_(model) {
  options_.bf16 = options.precision == Precision::kFast && bf16_products();
  options_.threads = options.threads;
  options_.block_rows = block_rows;
  if (options.weights == nullptr) return;
  cache_ = &options.weights->state();
  if (cache_->model != &model || cache_->bf16 != options_.bf16) {
    const int64_t budget = cache_->budget;
    *cache_ = {};
    cache_->budget = budget;
    cache_->model = &model;
    cache_->bf16 = options_.bf16;
  }
}

bool WeightSource::keep(int64_t bytes) {
  if (cache_ == nullptr || cache_->used + bytes > cache_->budget) return false;
  cache_->used += bytes;
  return true;
}

Result<PackedLayer*> WeightSource::layer(size_t index) {
  const ModelSpec& spec = model_.spec();
  if (cache_ != nullptr) {
    if (const auto found = cache_->layers.find(index); found != cache_->layers.end()) return &found->second;
    if (keep(packed_layer_bytes(spec, options_.bf16))) {
      PackedLayer fresh;
      ROPEWALK_CHECK_OK(fresh.assign(spec, spec.layers[index], model_.path(), options_));
      return &(cache_->layers[index] = std::move(fresh));
    }
  }
  ROPEWALK_CHECK_OK(spare_layer_.assign(spec, spec.layers[index], model_.path(), options_));
  return &spare_layer_;
}

Result<PackedMatrix*> WeightSource::output(int64_t first, int64_t count) {
  const std::array<RowRange, 1> rows = {{{model_.spec().output, first, count}}};
  if (cache_ != nullptr) {
    if (const auto found = cache_->chunks.find(first); found != cache_->chunks.end()) return &found->second;
    if (keep(count * model_.spec().width * (options_.bf16 ? 2 : 4))) {
      PackedMatrix fresh;
      ROPEWALK_CHECK_OK(fresh.assign(rows, model_.path(), options_));
      return &(cache_->chunks[first] = std::move(fresh));
    }
  }
  ROPEWALK_CHECK_OK(spare_chunk_.assign(rows, model_.path(), options_));
  return &spare_chunk_;
}

int64_t packed_layer_bytes(const ModelSpec& spec, bool bf16) {
  const int64_t c = spec.width, qkv = qkv_width(spec), q = int64_t{spec.heads} * spec.head_dim;
  return c * (qkv + q + 3 * spec.ffn_width) * (bf16 ? 2 : 4);
}

int64_t packed_model_bytes(const ModelSpec& spec, bool bf16) {
  return packed_layer_bytes(spec, bf16) * static_cast<int64_t>(spec.layers.size()) +
         spec.vocabulary * spec.width * (bf16 ? 2 : 4);
}

}  // namespace ropewalk
