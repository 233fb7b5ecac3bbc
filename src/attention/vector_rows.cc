#include "attention/vector_rows.h"

#include <algorithm>

#include "attention/sides.h"
#include "simd/ops.h"

namespace ropewalk {
namespace {

constexpr int64_t kSomeKeys = 64;  // keys whose products with vectors of the distance are formed at once

constexpr int64_t round_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

}  // namespace

Result<VectorRows> VectorRows::make(const VectorTables& tables, const AttentionInputs& inputs, const AttentionShape& shape,
                                    const AttentionKernels& kernels, int64_t block) {
  VectorRows rows;
  rows.tables_ = &tables;
  rows.in_ = &inputs;
  rows.kernels_ = &kernels;
  rows.dim_ = shape.dim;
  rows.group_ = shape.group;
  rows.block_ = round_up(block, kernels.row_tile);
  rows.depth_stride_ = round_up(packed_depth(kernels, shape.dim), 16);
  const VectorSide& query = tables.query();
  const VectorSide& key = tables.key();
  // Strides are no powers of two: cache sets.
  const int64_t window = round_up(kKeyTile + block + 2 * kMaxPanel, kMaxPanel);
  if (query.present) rows.y_stride_ = (query.by_distance ? window : round_up(query.rows, kMaxPanel)) + 16;
  if (key.present) rows.z_stride_ = round_up(kSomeKeys + block + 2 * kMaxPanel, kMaxPanel) + 16;
  const auto lay_out = [&](float* base) {
    int64_t used = 0;
    const auto take = [&](int64_t count) {
      float* part = base == nullptr ? nullptr : base + used;
      used += round_up(count, 16);
      return part;
    };
    const int64_t all = rows.group_ * rows.block_;
    rows.queries_ = take(query.present ? all * rows.depth_stride_ : 0);
    rows.with_bias_ = take(query.present ? rows.block_ * shape.dim : 0);
    rows.y_ = take(all * rows.y_stride_);
    rows.constant_ = take(query.present && !query.by_distance ? all * kWeightStride : 0);
    rows.built_ = take(all * kWeightStride);
    rows.keys_ = take(key.present ? (kKeyTile + kernels.row_tile) * rows.depth_stride_ : 0);
    rows.z_ = take((kSomeKeys + kernels.row_tile) * rows.z_stride_);
    return used;
  };
  ROPEWALK_TRY(rows.scratch_, AlignedBuffer<float>::make(lay_out(nullptr)));
  std::fill_n(rows.scratch_.data(), rows.scratch_.size(), 0.0F);
  lay_out(rows.scratch_.data());
  return rows;
}

void VectorRows::start(int head, int64_t begin, int64_t end, const float* raw) {
  head_ = head;
  begin_ = begin;
  end_ = end;
  low_ = high_ = 0;
  constant_row_ = -1;
  if (tables_->query().present) pack_queries(raw);
}

void VectorRows::pack_queries(const float* raw) {
  const VectorSide& side = tables_->query();
  const int64_t count = end_ - begin_;
  for (int h = 0; h < group_; ++h) {
    const float* bias = tables_->term().query_bias(head_ * group_ + h);
    RowSource source = {raw + int64_t{h} * dim_, DType::kF32, int64_t{group_} * dim_, static_cast<int>(count), dim_};
    if (bias != nullptr) {
      for (int64_t i = 0; i < count; ++i) {
        const float* from = raw + (i * group_ + h) * dim_;
        for (int c = 0; c < dim_; ++c) with_bias_[i * dim_ + c] = from[c] + bias[c];
      }
      source.data = with_bias_;
      source.stride = dim_;
    }
    float* to = queries_ + h * block_ * depth_stride_;
    uint8_t bad[kKeyTile] = {};  // known already: the rows of the block themselves are packed too
    kernels_->pack_queries(source, {}, nullptr, to, depth_stride_, bad);
    if (side.by_distance) continue;
    RowBlock block;
    block.rows = static_cast<int>(round_up(count, kernels_->row_tile));
    block.depth = packed_depth(*kernels_, dim_);
    block.q = to;
    block.q_stride = depth_stride_;
    kernels_->scores(block, side.table(head_ * group_ + h), static_cast<int>(side.rows), tables_->scale_log2(),
                     y_ + h * block_ * y_stride_, y_stride_);
  }
}

int64_t VectorRows::first_e(int64_t query) const {
  return tables_->largest() - (in_->q_pos[static_cast<size_t>(query)] - first_key_);
}

// Products with the e in [low, high), whole panels. What the tile before left is kept: a tile on, the next one needs all but
// kKeyTile of them again.
void VectorRows::slide(int64_t low, int64_t high) {
  const VectorSide& side = tables_->query();
  int64_t fresh = high;  // products from low to here are formed
  if (low < low_ && low_ < high && high <= high_) fresh = low_;
  if (low == low_ && high <= high_) return;
  const int64_t count = end_ - begin_;
  const int64_t available = std::min(fresh, round_up(side.rows, kKeyTile)) - low;
  for (int h = 0; h < group_; ++h) {
    float* y = y_ + h * block_ * y_stride_;
    if (fresh < high) {
      for (int64_t i = 0; i < count; ++i) {
        float* row = y + i * y_stride_;
        std::copy_backward(row, row + (high - fresh), row + (high - low));
      }
    }
    if (available <= 0) continue;
    RowBlock block;
    block.rows = static_cast<int>(round_up(count, kernels_->row_tile));
    block.depth = packed_depth(*kernels_, dim_);
    block.q = queries_ + h * block_ * depth_stride_;
    block.q_stride = depth_stride_;
    kernels_->scores(block, side.table(head_ * group_ + h) + low * block.depth, static_cast<int>(available),
                     tables_->scale_log2(), y, y_stride_);
  }
  low_ = low;
  high_ = high;
}

// The biases of a query's row from its own side, where they stand in memory in order; null: gathered into its row of built_.
const float* VectorRows::query_part(int h, int64_t query) {
  const VectorSide& side = tables_->query();
  const int64_t at = h * block_ + (query - begin_);
  const int64_t e = first_e(query);
  if (side.by_distance) return y_ + at * y_stride_ + (e - low_);
  if (constant_now_) return constant_ + at * kWeightStride;
  const float* y = y_ + at * y_stride_;
  const int32_t* index = side.index.data() + e;
  float* to = built(query - begin_, h);
  for (int c = 0; c < kKeyTile; ++c) to[c] = y[index[c]];
  return nullptr;
}

// built_ += k . b[j(d)], where j changes within the tile: a product of some keys at a time with the rows that their pairs need.
void VectorRows::add_near_keys(int h) {
  const VectorSide& side = tables_->key();
  const int64_t first_query = first_e(end_ - 1), last_query = first_e(begin_);  // e of the tile's first column
  for (int64_t some = 0; some < cols_; some += kSomeKeys) {
    const int64_t keys = std::min(kSomeKeys, cols_ - some);
    const int32_t a = side.index[static_cast<size_t>(first_query + some)];
    const int32_t b = side.index[static_cast<size_t>(last_query + some + keys - 1)];
    const int64_t low = std::min(a, b) / kMaxPanel * kMaxPanel;
    const int64_t rows = std::max(a, b) + 1 - low;
    RowBlock block;
    block.rows = static_cast<int>(round_up(keys, kernels_->row_tile));
    block.depth = packed_depth(*kernels_, dim_);
    block.q = keys_ + some * depth_stride_;
    block.q_stride = depth_stride_;
    kernels_->scores(block, side.table(head_ * group_ + h) + low * block.depth, static_cast<int>(rows), tables_->scale_log2(),
                     z_, z_stride_);
    for (int64_t query = begin_; query < end_; ++query) {
      const int32_t* index = side.index.data() + first_e(query) + some;
      float* to = built(query - begin_, h) + some;
      for (int64_t c = 0; c < keys; ++c) to[c] += z_[c * z_stride_ + index[c] - low];
    }
  }
}

bool VectorRows::take(int64_t tile, const float** bias) {
  if (!tables_->consecutive(tile)) return false;
  const VectorSide& query = tables_->query();
  const VectorSide& key = tables_->key();
  first_key_ = in_->k_pos[static_cast<size_t>(tile * kKeyTile)];
  cols_ = std::min<int64_t>(kKeyTile, static_cast<int64_t>(in_->k_pos.size()) - tile * kKeyTile);
  if (!counts_up(in_->q_pos.subspan(static_cast<size_t>(begin_), static_cast<size_t>(end_ - begin_)))) return false;
  const int64_t low = first_e(end_ - 1), high = first_e(begin_) + kKeyTile;  // e of all pairs
  if (low < 0 || high > tables_->distances() + int64_t{4} * kKeyTile) return false;

  const auto constant = [&](const VectorSide& side) {
    return side.index[static_cast<size_t>(low)] == side.index[static_cast<size_t>(high - kKeyTile + cols_ - 1)];
  };
  constant_now_ = query.present && !query.by_distance && constant(query);
  if (constant_now_ && constant_row_ != query.index[static_cast<size_t>(low)]) {
    constant_row_ = query.index[static_cast<size_t>(low)];
    for (int64_t at = 0; at < group_ * block_; ++at)
      std::fill_n(constant_ + at * kWeightStride, kWeightStride, y_[at * y_stride_ + constant_row_]);
  }
  if (query.by_distance) slide(low / kMaxPanel * kMaxPanel, round_up(high, kMaxPanel));

  bool near = false;
  int64_t edge = 0;
  if (key.present) {
    edge = key.index[static_cast<size_t>(low)];
    near = !constant(key) || (edge != 0 && edge != key.rows - 1);
    if (near) {
      uint8_t bad[kKeyTile] = {};  // known already, as above
      const RowSource source = rows_of(in_->k, head_, tile * kKeyTile, cols_);
      kernels_->pack_queries(source, {}, nullptr, keys_, depth_stride_, bad);
    }
  }
  for (int h = 0; h < group_; ++h) {
    const int head = head_ * group_ + h;
    const float* products = key.present && !near ? tables_->key_edge(head, edge != 0) : tables_->key_products(head);
    if (products != nullptr) products += tile * kKeyTile;
    for (int64_t i = begin_; i < end_; ++i) {
      const float* from = query.present ? query_part(h, i) : nullptr;
      float* to = built(i - begin_, h);
      bias[(i - begin_) * group_ + h] = from;
      if (from != nullptr && products == nullptr && !near) continue;  // in place
      bias[(i - begin_) * group_ + h] = to;
      if (from != nullptr) {
        std::copy_n(from, kKeyTile, to);
      } else if (!query.present) {
        std::fill_n(to, kKeyTile, 0.0F);
      }
      if (products != nullptr) ops::add_to(products, cols_, to);
    }
    if (near) add_near_keys(h);
  }
  return true;
}

}  // namespace ropewalk
