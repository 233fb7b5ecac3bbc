#include "attention/vector_tables.h"

#include <algorithm>

#include "attention/sides.h"
#include "simd/ops.h"

namespace ropewalk {
namespace {

constexpr double kLog2e = 1.4426950408889634;
constexpr int64_t kMostRows = 520;               // of a table whose products with a query are formed all at once
constexpr int64_t kPad = int64_t{4} * kKeyTile;  // what a tile may look up beyond the least distance

}  // namespace

Result<void> VectorTables::make(const AttentionInputs& inputs, const AttentionShape& shape, const AttentionKernels& kernels,
                                PosRange distances, double scale, bool fold_key_vector, const Threads& threads) {
  const VectorTerm* term = inputs.score == nullptr ? nullptr : inputs.score->by_vectors();
  if (term == nullptr || inputs.q_pos.empty() || inputs.k_pos.empty()) return {};
  if (distances.last - distances.first >= 4 * (shape.queries + shape.keys)) return {};
  term_ = term;
  distances_ = distances;
  keys_ = shape.keys;
  scale_log2_ = static_cast<float>(scale * kLog2e);
  consecutive_ = consecutive_tiles(inputs.k_pos);
  // No tile may be left to be done pair by pair, where u would be added again.
  folds_ = fold_key_vector && term->key_vector(0) != nullptr && counts_up(inputs.q_pos) &&
           std::all_of(consecutive_.begin(), consecutive_.end(), [](uint8_t yes) { return yes != 0; });
  ROPEWALK_CHECK_OK(make_side(VectorTerm::Side::kQuery, shape, kernels, threads, query_));
  ROPEWALK_CHECK_OK(make_side(VectorTerm::Side::kKey, shape, kernels, threads, key_));
  if (key_.by_distance) {  // a product of every key with every distance of a block: no cheaper than tile by tile
    term_ = nullptr;
    return {};
  }
  return make_products(inputs, shape, kernels, threads);
}

Result<void> VectorTables::make_side(VectorTerm::Side which, const AttentionShape& shape, const AttentionKernels& kernels,
                                     const Threads& threads, VectorSide& side) {
  if (!term_->has(which)) return {};
  const int64_t at_first = term_->row(which, distances_.last), at_last = term_->row(which, distances_.first);
  const int64_t low = std::min(at_first, at_last);
  const int64_t rows = std::max(at_first, at_last) - low + 1;
  side.present = true;
  side.by_distance = rows > kMostRows;
  side.rows = side.by_distance ? distances() : rows;
  side.tables = term_->shared(which) ? 1 : shape.heads;
  if (!side.by_distance) {
    side.index.resize(static_cast<size_t>(distances() + kPad), 0);
    for (int64_t e = 0; e < distances() + kPad; ++e) {
      const int64_t d = distances_.last - std::min(e, distances() - 1);
      side.index[static_cast<size_t>(e)] = static_cast<int32_t>(term_->row(which, d) - low);
    }
  } else if (which == VectorTerm::Side::kKey) {
    return {};
  }
  const int64_t tiles = (side.rows + kKeyTile - 1) / kKeyTile;
  side.table_size = tiles * packed_key_tile(kernels, shape.dim);
  ROPEWALK_TRY(side.packed, AlignedBuffer<float>::make(side.tables * side.table_size));
  std::fill_n(side.packed.data(), side.tables * side.table_size, 0.0F);
  std::vector<AlignedBuffer<float>> gathered(static_cast<size_t>(threads.count));
  for (auto& rows_of_tile : gathered) {
    ROPEWALK_TRY(rows_of_tile, AlignedBuffer<float>::make(int64_t{kKeyTile} * shape.dim));
  }
  parallel_for(threads, side.tables * tiles, [&](int64_t item, int thread) {
    const auto head = static_cast<int>(item / tiles);
    const int64_t begin = item % tiles * kKeyTile;
    const int64_t count = std::min<int64_t>(kKeyTile, side.rows - begin);
    float* to = gathered[static_cast<size_t>(thread)].data();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = side.by_distance ? term_->row(which, distances_.last - (begin + i)) : low + begin + i;
      std::copy_n(term_->vector(which, head, row), shape.dim, to + i * shape.dim);
    }
    uint8_t bad[kKeyTile] = {};
    const RowSource source = {to, DType::kF32, shape.dim, static_cast<int>(count), shape.dim};
    kernels.pack_keys(source, {}, side.packed.data() + head * side.table_size + begin * packed_depth(kernels, shape.dim), bad);
  });
  return {};
}

Result<void> VectorTables::make_products(const AttentionInputs& inputs, const AttentionShape& shape,
                                         const AttentionKernels& kernels, const Threads& threads) {
  const bool of_all = term_->key_vector(0) != nullptr && !folds_;
  if (!of_all && !key_.present) return {};
  if (of_all) {
    ROPEWALK_TRY(products_, AlignedBuffer<float>::make(shape.heads * keys_));
  }
  if (key_.present) {
    ROPEWALK_TRY(edges_, AlignedBuffer<float>::make(shape.heads * 2 * keys_));
  }
  const int64_t low =
      std::min(term_->row(VectorTerm::Side::kKey, distances_.first), term_->row(VectorTerm::Side::kKey, distances_.last));
  parallel_for(threads, shape.key_heads * keys_, [&](int64_t item, int) {
    const auto key_head = static_cast<int>(item / keys_);
    const int64_t j = item % keys_;
    float key[kMaxHeadDim];
    kernels.to_f32(rows_of(inputs.k, key_head, j, 1), key, shape.dim);
    for (int head = key_head * shape.group; head < (key_head + 1) * shape.group; ++head) {
      float product = 0;
      if (of_all) {
        product = scale_log2_ * ops::dot(term_->key_vector(head), key, shape.dim);
        products_.data()[head * keys_ + j] = product;
      }
      for (int side = 0; key_.present && side < 2; ++side) {
        const float* b = term_->vector(VectorTerm::Side::kKey, head, side == 0 ? low : low + key_.rows - 1);
        edges_.data()[(int64_t{head} * 2 + side) * keys_ + j] = product + scale_log2_ * ops::dot(b, key, shape.dim);
      }
    }
  });
  return {};
}

}  // namespace ropewalk
