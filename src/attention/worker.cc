#include "attention/worker.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fail.h"
#include "simd/ops.h"

namespace ropewalk {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kLog2e = 1.4426950408889634;

constexpr int64_t round_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

}  // namespace

void store_row(const float* x, float factor, const HeadsView& out, int64_t token, int head) {
  const int64_t at = token * out.token_stride + head * out.head_stride;
  for (int i = 0; i < out.dim; ++i) {
    const float y = x[i] * factor;
    switch (out.dtype) {
      case DType::kF32: static_cast<float*>(out.data)[at + i] = y; break;
      case DType::kF16: static_cast<f16_t*>(out.data)[at + i] = to_f16(y); break;
      case DType::kBF16: static_cast<bf16_t*>(out.data)[at + i] = to_bf16(y); break;
    }
  }
}

Result<AttentionWorker> AttentionWorker::make(const AttentionPlan& plan) {
  const AttentionShape& shape = plan.shape;
  const AttentionKernels& kernels = *plan.kernels;
  const int64_t rows = round_up(plan.block * shape.group, kernels.row_tile);
  const bool terms = plan.inputs->score != nullptr || plan.inputs->value != nullptr;
  const bool content = plan.inputs->score != nullptr && plan.inputs->score->needs_content();
  const int sides = plan.inputs->pairs != nullptr ? PairMap::Choice::kMost : 1;
  const int64_t state = plan.inputs->score != nullptr ? plan.inputs->score->row_state() : 0;
  const bool pairs = plan.inputs->score != nullptr && plan.inputs->score->by_pairs() != nullptr;
  const int64_t dim = round_up(shape.dim, 16);
  const int64_t out_dim = packed_dim(kernels, shape.value_dim);

  AttentionWorker worker;
  worker.plan_ = &plan;
  // Two passes over the same list: sizes, then places.
  const auto lay_out = [&](float* base) {
    int64_t used = 0;
    const auto take = [&](int64_t count) {
      float* part = base == nullptr ? nullptr : base + used;
      used += round_up(count, 16);
      return part;
    };
    for (int s = 0; s < sides; ++s) worker.query_slots_[s] = take(rows * dim);
    for (int s = 0; s < sides; ++s) worker.scores_[s] = take(rows * kWeightStride);
    worker.rows_.weights = take(rows * kWeightStride);
    worker.rows_.out = take(rows * out_dim);
    worker.rows_.maximum = take(rows);
    worker.rows_.sums = take(rows * kMaxLanes);
    worker.raw_queries_ = take(terms ? rows * shape.dim : 0);
    worker.folded_ = take(plan.vectors != nullptr && plan.vectors->folds_key_vector() ? rows * shape.dim : 0);
    worker.raw_keys_ = take(content ? int64_t{kKeyTile} * shape.dim : 0);
    worker.decay_ = take(2 * std::min<int64_t>(plan.block, kKeyTile) * plan.sides->decayed_planes());
    worker.state_ = reinterpret_cast<double*>(take(2 * rows * state));
    worker.poison_ = take(rows * shape.value_dim);
    if (plan.packs_itself) {
      for (int s = 0; s < sides; ++s) worker.key_slots_[s] = take(packed_key_tile(kernels, shape.dim));
      worker.value_slot_ = take(packed_value_tile(kernels, shape.value_dim));
    }
    worker.bias_ = reinterpret_cast<const float**>(take(plan.inputs->score == nullptr ? 0 : 2 * rows));
    worker.pair_rows_ = take(pairs ? rows * kWeightStride : 0);  // pointers: 8 bytes
    worker.first_ = reinterpret_cast<int32_t*>(take(rows));
    worker.last_ = reinterpret_cast<int32_t*>(take(rows));
    worker.query_first_ = reinterpret_cast<int32_t*>(take(plan.block));
    worker.query_last_ = reinterpret_cast<int32_t*>(take(plan.block));
    return used;
  };
  ROPEWALK_TRY(worker.scratch_, AlignedBuffer<float>::make(lay_out(nullptr)));
  lay_out(worker.scratch_.data());
  ROPEWALK_TRY(worker.bytes_, AlignedBuffer<uint8_t>::make(plan.block * kKeyTile + 2 * rows + 2 * kKeyTile));
  worker.seen_ = worker.bytes_.data();
  worker.tile_bad_keys_ = worker.seen_ + plan.block * kKeyTile;
  worker.tile_bad_values_ = worker.tile_bad_keys_ + kKeyTile;
  worker.bad_queries_ = worker.tile_bad_values_ + kKeyTile;
  worker.lost_ = worker.bad_queries_ + rows;
  if (plan.vectors != nullptr) {
    ROPEWALK_TRY(worker.vectors_, VectorRows::make(*plan.vectors, *plan.inputs, shape, kernels, plan.block));
  }
  worker.rows_.q_stride = dim;
  worker.rows_.depth = packed_depth(kernels, shape.dim);
  worker.rows_.out_stride = out_dim;
  worker.rows_.first = worker.first_;
  worker.rows_.last = worker.last_;
  return worker;
}

void AttentionWorker::start(int head, int64_t begin, int64_t end) {
  const AttentionShape& shape = plan_->shape;
  head_ = head;
  begin_ = begin;
  end_ = end;
  range_ = plan_->visibility->query_range(begin, end);
  rows_.rows = static_cast<int>(round_up((end - begin) * shape.group, plan_->kernels->row_tile));
  const int64_t rows = rows_.rows;
  std::fill_n(rows_.out, rows * rows_.out_stride, 0.0F);
  std::fill_n(rows_.maximum, rows, kNoMaximum);
  std::fill_n(rows_.sums, rows * kMaxLanes, 0.0F);
  std::fill_n(bad_queries_, rows, uint8_t{0});
  std::fill_n(lost_, rows, uint8_t{0});
  std::fill(std::begin(query_ready_), std::end(query_ready_), false);
  if (plan_->inputs->score != nullptr) std::fill_n(state_, rows * plan_->inputs->score->row_state(), 0.0);
  poisoned_ = false;
  if (raw_queries_ != nullptr && (plan_->inputs->score != nullptr || plan_->inputs->value != nullptr)) {
    for (int64_t i = 0; i < end - begin; ++i) {
      RowSource source = rows_of(plan_->inputs->q, head * shape.group, begin + i, shape.group);
      source.stride = plan_->inputs->q.head_stride;
      plan_->kernels->to_f32(source, raw_queries_ + i * shape.group * shape.dim, shape.dim);
    }
  }
  if (!vectors_) return;
  vectors_->start(head, begin, end, raw_queries_);
  if (!plan_->vectors->folds_key_vector()) return;
  for (int64_t row = 0; row < (end - begin) * shape.group; ++row) {
    const float* u = plan_->vectors->term().key_vector(head * shape.group + static_cast<int>(row % shape.group));
    for (int i = 0; i < shape.dim; ++i) folded_[row * shape.dim + i] = raw_queries_[row * shape.dim + i] + u[i];
  }
}

// The rows of the block under a side, packed when first asked for. As many sides are kept as a tile may need. With decay they
// belong to the tile.
const void* AttentionWorker::queries(uint64_t side_key, int64_t tile) {
  constexpr int kSlots = PairMap::Choice::kMost;
  const Side& side = plan_->sides->side(side_key);
  const bool decays = side.schedule != nullptr && !side.schedule->decay.empty();
  for (int s = 0; s < kSlots; ++s) {
    if (query_ready_[s] && query_side_[s] == side_key && !decays) return query_slots_[s];
  }
  const int slot = query_slots_[1] == nullptr ? 0 : next_slot_;
  next_slot_ = (slot + 1) % kSlots;
  const AttentionShape& shape = plan_->shape;
  float* to = query_slots_[slot];
  const int64_t stride = rows_.q_stride;
  // All heads of one position turn alike: rows of one call share a table row, so a call takes one head's tokens.
  for (int h = 0; h < shape.group; ++h) {
    for (int64_t i = begin_; i < end_;) {
      const int64_t count = side.schedule == nullptr ? end_ - i : std::min(end_ - i, Sides::queries_left_in_table(side, i));
      const bool folded = plan_->vectors != nullptr && plan_->vectors->folds_key_vector();
      const RowSource source = folded ? RowSource{folded_ + ((i - begin_) * shape.group + h) * shape.dim, DType::kF32,
                                                  int64_t{shape.group} * shape.dim, static_cast<int>(count), shape.dim}
                                      : rows_of(plan_->inputs->q, head_ * shape.group + h, i, count);
      const float* factor = side.schedule == nullptr ? nullptr : side.query_factor.data() + (i - side.query_begin);
      uint8_t bad[kKeyTile] = {};
      const int64_t row = (i - begin_) * shape.group + h;
      RowRotation rotation = plan_->sides->query_rotation(side, i);
      if (decays) rotation = decayed(side, rotation, i, count, tile);
      if (plan_->kernels->pack_queries(source, rotation, factor, to + row * stride, stride * shape.group, bad)) {
        for (int64_t r = 0; r < count; ++r) bad_queries_[row + r * shape.group] |= bad[r];
      }
      i += count;
    }
  }
  const int64_t used = (end_ - begin_) * shape.group;
  std::fill(to + used * stride, to + rows_.rows * stride, 0.0F);
  query_ready_[slot] = true;
  query_side_[slot] = side_key;
  return to;
}

// The queries' half of the decay (Sides::decay_keys). exp(decay (m - f)) is formed once a plane, and for the steps between the
// queries of a block by their distance from the first.
RowRotation AttentionWorker::decayed(const Side& side, const RowRotation& rotation, int64_t begin, int64_t count,
                                     int64_t tile) {
  const auto positions = plan_->inputs->q_pos;
  const int planes = rotation.planes;
  const int64_t frame = plan_->sides->frame(tile);
  float* cos = decay_;
  float* sin = decay_ + count * planes;
  for (int i = 0; i < planes; ++i) {
    const double decay = side.schedule->decay[static_cast<size_t>(i)];
    int64_t before = positions[static_cast<size_t>(begin)];
    float factor = decay_factor(decay, before - frame);
    const float step = decay_factor(decay, 1);
    for (int64_t t = 0; t < count; ++t) {
      const int64_t m = positions[static_cast<size_t>(begin + t)];
      if (m == before + 1) {
        factor *= step;
      } else if (m != before) {
        factor = decay_factor(decay, m - frame);
      }
      before = m;
      cos[t * planes + i] = rotation.cos[t * planes + i] * factor;
      sin[t * planes + i] = rotation.sin[t * planes + i] * factor;
    }
  }
  return {cos, sin, planes, rotation.begin, rotation.interleaved};
}

const void* AttentionWorker::keys(int slot, uint64_t side_key, int64_t tile) {
  const Side& side = plan_->sides->side(side_key);
  const int64_t tile_size = packed_key_tile(*plan_->kernels, plan_->shape.dim);
  if (!plan_->packs_itself) return side.packed.data() + (head_ * plan_->visibility->tiles() + tile) * tile_size;
  const RowSource source = rows_of(plan_->inputs->k, head_, tile * kKeyTile, plan_->visibility->tile_keys(tile));
  plan_->kernels->pack_keys(source, plan_->sides->key_rotation(side, tile), key_slots_[slot], tile_bad_keys_);
  return key_slots_[slot];
}

const void* AttentionWorker::values(int64_t tile) {
  const int64_t tile_size = packed_value_tile(*plan_->kernels, plan_->shape.value_dim);
  if (!plan_->packs_itself) return plan_->values + (head_ * plan_->visibility->tiles() + tile) * tile_size;
  const RowSource source = rows_of(plan_->inputs->v, head_, tile * kKeyTile, plan_->visibility->tile_keys(tile));
  plan_->kernels->pack_values(source, value_slot_, tile_bad_values_);
  return value_slot_;
}

// Rows follow their queries; rows that fill up the last register tile do as the last one does.
void AttentionWorker::set_row_ranges() {
  const int group = plan_->shape.group;
  int row = 0;
  for (int64_t i = 0; i < end_ - begin_; ++i) {
    for (int h = 0; h < group; ++h, ++row) {
      first_[row] = query_first_[i];
      last_[row] = query_last_[i];
    }
  }
  for (; row < rows_.rows; ++row) {
    first_[row] = first_[row - 1];
    last_[row] = last_[row - 1];
  }
}

// The score term of the tile as a row of biases for each row; false: it must be added pair by pair.
bool AttentionWorker::set_row_biases(int64_t tile) {
  const AttentionInputs& in = *plan_->inputs;
  if (vectors_) {
    if (!vectors_->take(tile, bias_)) return false;
    for (auto row = static_cast<int>(end_ - begin_) * plan_->shape.group; row < rows_.rows; ++row) bias_[row] = bias_[row - 1];
    return true;
  }
  if (in.score->by_pairs() != nullptr) return fill_pair_rows(*in.score->by_pairs(), tile);
  if (plan_->bias == nullptr || !plan_->bias->consecutive(tile)) return false;
  const int group = plan_->shape.group;
  const int64_t first_key = in.k_pos[static_cast<size_t>(tile * kKeyTile)];
  int row = 0;
  for (int64_t i = begin_; i < end_; ++i) {
    for (int h = 0; h < group; ++h, ++row) {
      bias_[row] = plan_->bias->row(head_ * group + h, in.q_pos[static_cast<size_t>(i)], first_key);
    }
  }
  for (; row < rows_.rows; ++row) bias_[row] = bias_[row - 1];
  return true;
}

bool AttentionWorker::fill_pair_rows(const PairTerm& term, int64_t tile) {
  const AttentionInputs& in = *plan_->inputs;
  const auto cols = static_cast<size_t>(plan_->visibility->tile_keys(tile));
  const auto keys = in.k_pos.subspan(static_cast<size_t>(tile * kKeyTile), cols);
  if (keys.back() - keys.front() != static_cast<int64_t>(cols) - 1 || !plan_->visibility->tile_range(tile).sorted) return false;
  const int group = plan_->shape.group;
  int row = 0;
  bool plain = true;  // what kernels cannot take is added pair by pair
  for (int64_t i = begin_; i < end_; ++i) {
    for (int h = 0; h < group; ++h, ++row) {
      const std::span<float> to(pair_rows_ + int64_t{row} * kWeightStride, cols);
      term.fill(head_ * group + h, plan_->shape.heads, in.q_pos[static_cast<size_t>(i)], keys.front(), to);
      plain &= ops::scale_finite(static_cast<float>(kLog2e), static_cast<int64_t>(cols), to.data());
      bias_[row] = to.data();
    }
  }
  for (; row < rows_.rows; ++row) bias_[row] = bias_[row - 1];
  return plain;
}

// ... into scores in natural units.
void AttentionWorker::add_biases(int cols) {
  constexpr float kLn2 = 0.693147181F;
  for (int row = 0; row < rows_.rows; ++row) {
    float* to = scores_[0] + int64_t{row} * kWeightStride;
    for (int j = 0; j < cols; ++j) to[j] += kLn2 * bias_[row][j];
  }
}

void AttentionWorker::run(int head, int64_t begin, int64_t end, int64_t first_tile, int64_t last_tile) {
  start(head, begin, end);
  for (int64_t t = last_tile - 1; t >= first_tile; --t) tile(t);
}

void AttentionWorker::tile(int64_t tile) {
  const AttentionInputs& in = *plan_->inputs;
  const Visibility& visibility = *plan_->visibility;
  const Visibility::Kind kind = visibility.look(begin_, end_, range_, tile, query_first_, query_last_, seen_);
  if (kind == Visibility::Kind::kNone) return;
  set_row_ranges();
  if (plan_->packs_itself) {
    std::fill_n(tile_bad_keys_, kKeyTile, uint8_t{0});
    std::fill_n(tile_bad_values_, kKeyTile, uint8_t{0});
  }
  const PairMap::Choice choice = plan_->sides->choose(range_, tile);
  const int cols = static_cast<int>(visibility.tile_keys(tile));
  const bool biased = in.score != nullptr && set_row_biases(tile);
  const bool rest = biased && in.score->by_vectors() != nullptr && in.score->by_vectors()->has_rest();
  const bool general = kind == Visibility::Kind::kMixed || choice.sides > 1 || plan_->options->softcap > 0 ||
                       (in.score != nullptr && !biased) || rest || in.value != nullptr;
  if (general) {
    general_weights(tile, choice, kind, cols, biased);
  } else {
    rows_.q = queries(choice.side[0], tile);
    rows_.bias = biased ? bias_ : nullptr;
    const double scale = plan_->sides->side(choice.side[0]).scale;
    plan_->kernels->score_weights(rows_, keys(0, choice.side[0], tile), static_cast<float>(scale * kLog2e));
  }
  plan_->kernels->accumulate(rows_, values(tile), plan_->shape.value_dim);
  if (in.value != nullptr) add_terms(tile, cols, Term::kValue);
  collect_bad(tile, kind);
}

void AttentionWorker::general_weights(int64_t tile, const PairMap::Choice& choice, Visibility::Kind kind, int cols,
                                      bool biased) {
  const AttentionInputs& in = *plan_->inputs;
  for (int s = 0; s < choice.sides; ++s) {
    rows_.q = queries(choice.side[s], tile);
    plan_->kernels->scores(rows_, keys(s, choice.side[s], tile), cols,
                           static_cast<float>(plan_->sides->side(choice.side[s]).scale), scores_[s], kWeightStride);
  }
  select_sides(tile, choice, cols);
  const double cap = plan_->options->softcap;
  if (cap > 0) plan_->kernels->soft_cap(scores_[0], int64_t{rows_.rows} * kWeightStride, static_cast<float>(cap));
  hide(kind, cols);
  if (in.score != nullptr) {
    if (biased) {
      add_biases(cols);
      if (in.score->by_vectors() != nullptr && in.score->by_vectors()->has_rest()) add_terms(tile, cols, Term::kRest);
    } else {
      add_terms(tile, cols, Term::kScore);
    }
    hide(kind, cols);  // a term may have made NaN of a hidden score
  }
  plan_->kernels->weights(rows_, scores_[0], cols, in.value != nullptr);
}

// Each pair's score from the side that it belongs to.
void AttentionWorker::select_sides(int64_t tile, const PairMap::Choice& choice, int cols) {
  const AttentionInputs& in = *plan_->inputs;
  for (int s = 1; s < choice.sides; ++s) {
    for (int64_t i = begin_; i < end_; ++i) {
      // The side takes the keys up to here.
      const int64_t border = choice.border == PairMap::Choice::Border::kDistance
                                 ? in.q_pos[static_cast<size_t>(i)] - choice.split[s - 1]
                                 : choice.split[s - 1] - 1;
      for (int j = 0; j < cols; ++j) {
        if (in.k_pos[static_cast<size_t>(tile * kKeyTile + j)] > border) continue;
        for (int h = 0; h < plan_->shape.group; ++h) {
          const int64_t at = ((i - begin_) * plan_->shape.group + h) * kWeightStride + j;
          scores_[0][at] = scores_[s][at];
        }
      }
    }
  }
}

void AttentionWorker::hide(Visibility::Kind kind, int cols) {
  const int group = plan_->shape.group;
  for (int row = 0; row < rows_.rows; ++row) {
    float* scores = scores_[0] + int64_t{row} * kWeightStride;
    std::fill(scores, scores + first_[row], kHidden);
    std::fill(scores + last_[row], scores + std::max(cols, last_[row]), kHidden);
    if (kind != Visibility::Kind::kMixed) continue;
    const int64_t query = std::min<int64_t>(row / group, end_ - begin_ - 1);
    const uint8_t* seen = seen_ + query * kKeyTile;
    for (int j = first_[row]; j < last_[row]; ++j) {
      if (seen[j] == 0) scores[j] = kHidden;
    }
  }
}

// The score term into the scores, or the value term, by the weights that stand in their place, into the output: a head at a
// time.
void AttentionWorker::add_terms(int64_t tile, int cols, Term which) {
  const AttentionInputs& in = *plan_->inputs;
  const AttentionShape& shape = plan_->shape;
  ScoreTile part;
  part.heads = shape.heads;
  part.q_pos = in.q_pos.subspan(static_cast<size_t>(begin_), static_cast<size_t>(end_ - begin_));
  part.k_pos = in.k_pos.subspan(static_cast<size_t>(tile * kKeyTile), static_cast<size_t>(cols));
  part.q_stride = int64_t{shape.group} * shape.dim;
  if (!in.q_type.empty()) {
    part.q_type = in.q_type.subspan(static_cast<size_t>(begin_), static_cast<size_t>(end_ - begin_));
    part.k_type = in.k_type.subspan(static_cast<size_t>(tile * kKeyTile), static_cast<size_t>(cols));
  }
  part.scale = shape.scale * (in.rotary != nullptr ? in.rotary->softmax_multiplier : 1.0);
  if (in.score != nullptr && in.score->needs_content()) {
    if (which != Term::kValue) plan_->kernels->to_f32(rows_of(in.k, head_, tile * kKeyTile, cols), raw_keys_, shape.dim);
    part.k = raw_keys_;
    part.k_stride = shape.dim;
  }
  const int64_t stride = int64_t{shape.group} * kWeightStride;
  for (int h = 0; h < shape.group; ++h) {
    part.head = head_ * shape.group + h;
    if (which == Term::kScore && in.score->row_state() > 0) {
      part.state = state_ + h * in.score->row_state();
      part.state_stride = shape.group * in.score->row_state();
    }
    part.q = raw_queries_ + int64_t{h} * shape.dim;
    float* scores = scores_[0] + int64_t{h} * kWeightStride;
    if (which == Term::kRest) {
      in.score->by_vectors()->add_rest(part, scores, stride);
    } else if (which == Term::kValue) {
      in.value->add(part, scores, stride, rows_.out + h * rows_.out_stride, shape.group * rows_.out_stride);
    } else {
      in.score->add(part, scores, stride);
    }
  }
}

// NaN and infinity were packed as zeros, so that hidden ones cannot leak through 0 * NaN. Here they are given to the rows that
// do see them.
void AttentionWorker::collect_bad(int64_t tile, Visibility::Kind kind) {
  const AttentionShape& shape = plan_->shape;
  const int64_t offset = (head_ * plan_->visibility->tiles() + tile) * kKeyTile;
  const uint8_t* bad_keys = plan_->packs_itself ? tile_bad_keys_ : plan_->bad_keys + offset;
  const uint8_t* bad_values = plan_->packs_itself ? tile_bad_values_ : plan_->bad_values + offset;
  float value[kMaxHeadDim];
  for (int64_t j = 0; j < plan_->visibility->tile_keys(tile); ++j) {
    if (bad_keys[j] == 0 && bad_values[j] == 0) continue;
    if (bad_values[j] != 0) {
      if (!poisoned_) std::fill_n(poison_, int64_t{rows_.rows} * shape.value_dim, 0.0F);
      poisoned_ = true;
      plan_->kernels->to_f32(rows_of(plan_->inputs->v, head_, tile * kKeyTile + j, 1), value, shape.value_dim);
    }
    for (int64_t row = 0; row < (end_ - begin_) * shape.group; ++row) {
      if (j < first_[row] || j >= last_[row]) continue;
      if (kind == Visibility::Kind::kMixed && seen_[row / shape.group * kKeyTile + j] == 0) continue;
      if (bad_keys[j] != 0) lost_[row] = 1;
      for (int c = 0; c < shape.value_dim && bad_values[j] != 0; ++c) {
        if (!std::isfinite(value[c])) poison_[row * shape.value_dim + c] += value[c];
      }
    }
  }
}

// 0: the row saw no key. NaN: it saw, or was, a bad one.
float AttentionWorker::row_sum(int row) const {
  float sum = 0;
  for (int i = 0; i < kMaxLanes; ++i) sum += rows_.sums[int64_t{row} * kMaxLanes + i];
  if (lost_[row] != 0 || (bad_queries_[row] != 0 && sum != 0)) return kNaN;
  return sum;
}

void AttentionWorker::finish(const HeadsView& out) {
  const AttentionShape& shape = plan_->shape;
  for (int row = 0; row < static_cast<int>((end_ - begin_) * shape.group); ++row) {
    const float sum = row_sum(row);
    float* x = rows_.out + row * rows_.out_stride;
    if (poisoned_) {
      for (int c = 0; c < shape.value_dim; ++c) x[c] += poison_[int64_t{row} * shape.value_dim + c];
    }
    store_row(x, sum == 0 ? 0 : 1 / sum, out, begin_ + row / shape.group, head_ * shape.group + row % shape.group);
  }
}

void AttentionWorker::finish(const PartialRows& partial) {
  const AttentionShape& shape = plan_->shape;
  for (int row = 0; row < static_cast<int>((end_ - begin_) * shape.group); ++row) {
    partial.maximum[row] = rows_.maximum[row];
    partial.sum[row] = row_sum(row);
    const float* x = rows_.out + row * rows_.out_stride;
    for (int c = 0; c < shape.value_dim; ++c) {
      partial.out[int64_t{row} * shape.value_dim + c] = poisoned_ ? x[c] + poison_[int64_t{row} * shape.value_dim + c] : x[c];
    }
  }
}

}  // namespace ropewalk
