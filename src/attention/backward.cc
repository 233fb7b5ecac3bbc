// The gradients of attention, a query and head at a time: memory O(T + S), whatever the encoding. Weights are formed again from
// q and k, so a forward pass leaves nothing behind. Products in f32, the softmax and what it sums in double.
//
//   a = softmax(s), o = sum_n a_n (v_n + value term)
//   da_n = do . (v_n + value term),  ds_n = a_n (da_n - sum_j a_j da_j)
//   dv_n += a_n do,  dq += scale ds_n k_n,  dk_n += scale ds_n q, both turned back;  the terms give their own parts
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "attention/inputs.h"
#include "attention/sides.h"
#include "attention/visibility.h"
#include "base/fail.h"
#include "base/parallel.h"
#include "ropewalk/attention.h"
#include "simd/ops.h"

namespace ropewalk {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

void load_row(const ConstHeadsView& view, int64_t token, int head, float* out) {
  const int64_t at = token * view.token_stride + head * view.head_stride;
  for (int i = 0; i < view.dim; ++i) {
    switch (view.dtype) {
      case DType::kF16: out[i] = to_f32(static_cast<const f16_t*>(view.data)[at + i]); break;
      case DType::kBF16: out[i] = to_f32(static_cast<const bf16_t*>(view.data)[at + i]); break;
      default: out[i] = static_cast<const float*>(view.data)[at + i]; break;
    }
  }
}

std::vector<float> load_rows(const ConstHeadsView& view, int head) {
  std::vector<float> rows(static_cast<size_t>(view.tokens * view.dim));
  for (int64_t t = 0; t < view.tokens; ++t) load_row(view, t, head, rows.data() + t * view.dim);
  return rows;
}

// A row of cos and sin, the amplitude in them, over the slice that turns.
struct Turn {
  const float* cos = nullptr;
  const float* sin = nullptr;
};

// x = R x, or (back) x = R^T x: what a gradient by R x becomes by x.
void turn_row(const RotarySchedule& schedule, const Turn& turn, bool back, float* x) {
  const size_t planes = schedule.inv_freq.size();
  float* slice = x + schedule.rotated.begin;
  for (size_t i = 0; i < planes; ++i) {
    float& x0 = slice[schedule.pairing == Pairing::kHalves ? i : 2 * i];
    float& x1 = slice[schedule.pairing == Pairing::kHalves ? i + planes : 2 * i + 1];
    const float c = turn.cos[i], s = back ? -turn.sin[i] : turn.sin[i];
    const float y0 = x0 * c - x1 * s;
    x1 = x1 * c + x0 * s;
    x0 = y0;
  }
}

// The keys of one key head under one rotation, and the gradient by them.
struct TurnedKeys {
  RotaryTable table;  // empty: not rotated here
  std::vector<float> keys, gradient;
};

class KeyHead {
 public:
  KeyHead(const AttentionInputs& in, const AttentionOptions& options, const AttentionShape& shape, const Visibility& visibility,
          ConstHeadsView out_gradient, const AttentionGradients& out, int head)
      : in_(in),
        options_(options),
        shape_(shape),
        visibility_(visibility),
        out_gradient_(out_gradient),
        out_(out),
        head_(head),
        keys_(load_rows(in.k, head)),
        values_(load_rows(in.v, head)),
        key_gradient_(keys_.size(), 0.0F),
        value_gradient_(values_.size(), 0.0F) {}

  Result<void> run() {
    for (int64_t i = 0; i < shape_.queries; ++i) {
      ROPEWALK_CHECK_OK(collect(i));
      for (int h = head_ * shape_.group; h < (head_ + 1) * shape_.group; ++h) ROPEWALK_CHECK_OK(query(i, h));
    }
    turn_back();
    store(key_gradient_, out_.k);
    store(value_gradient_, out_.v);
    return {};
  }
  EncodingGradients& encoding() { return encoding_; }

 private:
  // Where a pair's rotation is the same: a run of columns.
  struct Span {
    int64_t first = 0, last = 0;
    TurnedKeys* side = nullptr;
    size_t query = 0;  // index of its query among turned_
  };
  struct TurnedQuery {
    uint64_t side = 0;
    const RotarySchedule* schedule = nullptr;
    RotaryTable table;
    double scale = 1;
    int64_t frame = 0;  // of decay
    std::vector<float> query, gradient;
  };

  Result<void> query(int64_t i, int h) {
    const auto dim = static_cast<size_t>(shape_.dim);
    raw_.resize(dim);
    load_row(in_.q, i, h, raw_.data());
    std::vector<float> raw_gradient(dim, 0.0F), out_row(static_cast<size_t>(shape_.value_dim));
    load_row(out_gradient_, i, h, out_row.data());
    if (spans_.empty()) return store_query(i, h, raw_gradient);
    for (TurnedQuery& q : turned_) turn_query(i, q);

    // Scores of the columns [begin_, end).
    begin_ = spans_.front().first;
    const int64_t end = spans_.back().last;
    const auto cols = static_cast<size_t>(end - begin_);
    std::vector<double> scores(cols, kHidden), slope(options_.softcap > 0 ? cols : 0);
    for (const Span& span : spans_) {
      const TurnedQuery& q = turned_[span.query];
      for (int64_t n = span.first; n < span.last; ++n) {
        double s = q.scale * static_cast<double>(ops::dot(q.query.data(), span.side->keys.data() + n * shape_.dim, shape_.dim));
        if (options_.softcap > 0) {
          const double t = std::tanh(s / options_.softcap);
          s = options_.softcap * t;
          slope[static_cast<size_t>(n - begin_)] = 1 - t * t;
        }
        scores[static_cast<size_t>(n - begin_)] = s;
      }
    }
    const ScoreTile tile = tile_of(i, h, cols);
    const std::vector<double> before = scores;
    if (in_.score != nullptr) {
      std::vector<float> narrow(scores.begin(), scores.end());
      in_.score->add(tile, narrow.data(), static_cast<int64_t>(cols));
      for (size_t c = 0; c < cols; ++c) scores[c] = before[c] == kHidden ? kHidden : static_cast<double>(narrow[c]);
    }

    std::vector<double> weights(cols, 0.0), gradient(cols, 0.0);
    const double top = *std::max_element(scores.begin(), scores.end());
    if (top == kHidden) return store_query(i, h, raw_gradient);
    double sum = 0;
    for (size_t c = 0; c < cols; ++c) sum += weights[c] = scores[c] == kHidden ? 0.0 : std::exp(scores[c] - top);
    for (double& a : weights) a /= sum;
    for (const Span& span : spans_) {
      for (int64_t n = span.first; n < span.last; ++n) {
        const auto c = static_cast<size_t>(n - begin_);
        gradient[c] = static_cast<double>(ops::dot(out_row.data(), values_.data() + n * shape_.value_dim, shape_.value_dim));
        ops::add_scaled(static_cast<float>(weights[c]), out_row.data(), shape_.value_dim,
                        value_gradient_.data() + n * shape_.value_dim);
      }
    }
    if (in_.value != nullptr) in_.value->backward(tile, weights, out_row.data(), gradient, encoding_);
    double mean = 0;
    for (size_t c = 0; c < cols; ++c) mean += weights[c] * gradient[c];
    for (size_t c = 0; c < cols; ++c) gradient[c] = weights[c] == 0 ? 0.0 : weights[c] * (gradient[c] - mean);
    if (in_.score != nullptr) {
      const ContentGradient content = {raw_gradient.data(), key_gradient_.data() + begin_ * shape_.dim, shape_.dim};
      in_.score->backward(tile, before, gradient, content, encoding_);
    }
    for (const Span& span : spans_) {
      TurnedQuery& q = turned_[span.query];
      for (int64_t n = span.first; n < span.last; ++n) {
        const auto c = static_cast<size_t>(n - begin_);
        const auto g = static_cast<float>(gradient[c] * q.scale * (slope.empty() ? 1.0 : slope[c]));
        if (g == 0) continue;
        ops::add_scaled(g, span.side->keys.data() + n * shape_.dim, shape_.dim, q.gradient.data());
        ops::add_scaled(g, q.query.data(), shape_.dim, span.side->gradient.data() + n * shape_.dim);
      }
    }
    for (TurnedQuery& q : turned_) {
      decay(q, in_.q_pos[static_cast<size_t>(i)], q.gradient);
      if (q.schedule != nullptr && !q.schedule->inv_freq.empty())
        turn_row(*q.schedule, {q.table.cos.data(), q.table.sin.data()}, true, q.gradient.data());
      ops::add_to(q.gradient.data(), shape_.dim, raw_gradient.data());
    }
    return store_query(i, h, raw_gradient);
  }

  // The visible columns as runs of one rotation, and which rotations of the query they need.
  Result<void> collect(int64_t i) {
    spans_.clear();
    turned_.clear();
    const TokenRange range = visibility_.query_range(i, i + 1);
    uint8_t seen[kKeyTile];
    for (int64_t tile = 0; tile < visibility_.tiles(); ++tile) {
      int32_t first = 0, last = 0;
      const Visibility::Kind kind = visibility_.look(i, i + 1, range, tile, &first, &last, seen);
      if (kind == Visibility::Kind::kNone) continue;
      for (int64_t j = first; j < last; ++j) {
        if (kind == Visibility::Kind::kMixed && seen[j] == 0) continue;
        if (kind == Visibility::Kind::kRuns && in_.pairs == nullptr && j > first) {  // as the first of the run
          spans_.back().last = tile * kKeyTile + last;
          break;
        }
        const int64_t key = tile * kKeyTile + j;
        const uint64_t side = side_of(i, key);
        const bool decays = in_.rotary != nullptr && !in_.rotary->decay.empty();
        const bool goes_on = !spans_.empty() && spans_.back().last == key && turned_[spans_.back().query].side == side &&
                             (!decays || key % kKeyTile != 0);
        if (goes_on) {
          ++spans_.back().last;
          continue;
        }
        ROPEWALK_TRY(TurnedKeys * keys, turned_keys(side));
        ROPEWALK_TRY(const size_t query, turned_query(i, side, decays ? frame(tile) : 0));
        spans_.push_back({key, key + 1, keys, query});
      }
    }
    return {};
  }

  uint64_t side_of(int64_t i, int64_t key) const {
    if (in_.pairs == nullptr) return 0;
    const int64_t m = in_.q_pos[static_cast<size_t>(i)], n = in_.k_pos[static_cast<size_t>(key)];
    return in_.pairs->choose({m, m}, {n, n}).at(m, n);
  }
  const RotarySchedule* schedule_of(uint64_t side) const {
    return in_.pairs != nullptr ? &in_.pairs->schedule(side) : in_.rotary;
  }
  int64_t frame(int64_t tile) const { return visibility_.tile_range(tile).positions.last; }

  Result<RotaryTable> table(uint64_t side, std::span<const int64_t> positions, std::span<const int64_t> axes, bool queries,
                            size_t stride, size_t at) const {
    RotarySchedule schedule = *schedule_of(side);
    if (in_.pairs != nullptr) {
      std::vector<double> real(positions.size());
      if (queries) {
        in_.pairs->query_positions(side, positions, real);
      } else {
        in_.pairs->key_positions(side, positions, real);
      }
      return make_rotary_table(schedule, real);
    }
    if (axes.empty()) {
      schedule.axis.clear();
      return make_rotary_table(schedule, positions);
    }
    std::vector<int64_t> rows;
    for (size_t row = 0; row < axes.size(); row += stride) {
      rows.insert(rows.end(), axes.begin() + static_cast<int64_t>(row + at),
                  axes.begin() + static_cast<int64_t>(row + at + positions.size()));
    }
    return make_rotary_table(schedule, rows);
  }

  // At most a few are kept: a map with many sides uses them one after another.
  Result<TurnedKeys*> turned_keys(uint64_t side) {
    const auto found = sides_.find(side);
    if (found != sides_.end()) return &found->second;
    if (sides_.size() > PairMap::Choice::kMost + 1 && spans_.empty()) turn_back();
    TurnedKeys& made = sides_[side];
    made.keys = keys_;
    made.gradient.assign(keys_.size(), 0.0F);
    const RotarySchedule* schedule = schedule_of(side);
    if (schedule == nullptr || schedule->inv_freq.empty() || in_.k_rotated) return &made;
    std::vector<int64_t> positions(in_.k_pos.begin(), in_.k_pos.end());
    for (size_t j = 0; j < in_.k_segment.size(); ++j) positions[j] = in_.k_segment[j] < 0 ? 0 : positions[j];
    ROPEWALK_TRY(made.table, table(side, positions, in_.k_axes, false, in_.k_pos.size(), 0));
    for (int64_t tile = 0; tile < visibility_.tiles() && !schedule->decay.empty(); ++tile) {
      for (int64_t j = tile * kKeyTile; j < tile * kKeyTile + visibility_.tile_keys(tile); ++j) {
        for (int p = 0; p < made.table.planes; ++p) {
          const auto at = static_cast<size_t>(j * made.table.planes + p);
          const float factor =
              decay_factor(-schedule->decay[static_cast<size_t>(p)], positions[static_cast<size_t>(j)] - frame(tile));
          made.table.cos[at] *= factor;
          made.table.sin[at] *= factor;
        }
      }
    }
    for (int64_t j = 0; j < shape_.keys; ++j)
      turn_row(*schedule, turn_of(made.table, j), false, made.keys.data() + j * shape_.dim);
    return &made;
  }

  static Turn turn_of(const RotaryTable& table, int64_t row) {
    return {table.cos.data() + row * table.planes, table.sin.data() + row * table.planes};
  }

  Result<size_t> turned_query(int64_t i, uint64_t side, int64_t frame) {
    for (size_t t = 0; t < turned_.size(); ++t) {
      if (turned_[t].side == side && turned_[t].frame == frame) return t;
    }
    TurnedQuery q;
    q.side = side;
    q.frame = frame;
    q.scale = shape_.scale;
    q.schedule = schedule_of(side);
    const int64_t m = in_.q_pos[static_cast<size_t>(i)];
    if (q.schedule != nullptr) {
      q.scale *= q.schedule->softmax_multiplier * query_multiplier(q.schedule->query_temperature, m);
      if (!q.schedule->inv_freq.empty()) {
        ROPEWALK_TRY(q.table, table(side, in_.q_pos.subspan(static_cast<size_t>(i), 1), in_.q_axes, true, in_.q_pos.size(),
                                    static_cast<size_t>(i)));
      }
    }
    turned_.push_back(std::move(q));
    return turned_.size() - 1;
  }

  // The head in work under that rotation.
  void turn_query(int64_t i, TurnedQuery& q) const {
    q.query = raw_;
    q.gradient.assign(raw_.size(), 0.0F);
    if (q.schedule == nullptr || q.schedule->inv_freq.empty()) return;
    turn_row(*q.schedule, turn_of(q.table, 0), false, q.query.data());
    decay(q, in_.q_pos[static_cast<size_t>(i)], q.query);
  }

  // The query's half of the decay; the keys' is in their table.
  void decay(const TurnedQuery& q, int64_t m, std::vector<float>& x) const {
    if (q.schedule == nullptr || q.schedule->decay.empty()) return;
    const size_t planes = q.schedule->decay.size();
    for (size_t i = 0; i < 2 * planes; ++i) {
      const size_t plane = q.schedule->pairing == Pairing::kHalves ? i % planes : i / 2;
      x[static_cast<size_t>(q.schedule->rotated.begin) + i] *= decay_factor(q.schedule->decay[plane], m - q.frame);
    }
  }

  void turn_back() {
    for (auto& [side, turned] : sides_) {
      for (int64_t j = 0; j < shape_.keys; ++j) {
        float* row = turned.gradient.data() + j * shape_.dim;
        if (turned.table.planes > 0) turn_row(*schedule_of(side), turn_of(turned.table, j), true, row);
        ops::add_to(row, shape_.dim, key_gradient_.data() + j * shape_.dim);
      }
    }
    sides_.clear();
  }

  ScoreTile tile_of(int64_t i, int h, size_t cols) {
    ScoreTile tile;
    tile.head = h;
    tile.heads = shape_.heads;
    tile.q_pos = in_.q_pos.subspan(static_cast<size_t>(i), 1);
    tile.k_pos = in_.k_pos.subspan(static_cast<size_t>(begin_), cols);
    tile.q = raw_.data();
    tile.q_stride = shape_.dim;
    tile.k = keys_.data() + begin_ * shape_.dim;
    tile.k_stride = shape_.dim;
    tile.scale = shape_.scale * (in_.rotary != nullptr ? in_.rotary->softmax_multiplier : 1.0);
    if (!in_.q_type.empty()) {
      tile.q_type = in_.q_type.subspan(static_cast<size_t>(i), 1);
      tile.k_type = in_.k_type.subspan(static_cast<size_t>(begin_), cols);
    }
    if (in_.score != nullptr) state_.assign(static_cast<size_t>(in_.score->row_state()), 0.0);
    tile.state = state_.data();
    tile.state_stride = static_cast<int64_t>(state_.size());
    return tile;
  }

  Result<void> store_query(int64_t i, int h, const std::vector<float>& row) {
    if (out_.q.data == nullptr) return {};
    float* to = static_cast<float*>(out_.q.data) + i * out_.q.token_stride + h * out_.q.head_stride;
    std::copy(row.begin(), row.end(), to);
    return {};
  }
  void store(const std::vector<float>& rows, const HeadsView& view) const {
    if (view.data == nullptr) return;
    for (int64_t t = 0; t < view.tokens; ++t) {
      std::copy_n(rows.data() + t * view.dim, view.dim,
                  static_cast<float*>(view.data) + t * view.token_stride + head_ * view.head_stride);
    }
  }

  const AttentionInputs& in_;
  const AttentionOptions& options_;
  const AttentionShape& shape_;
  const Visibility& visibility_;
  ConstHeadsView out_gradient_;
  const AttentionGradients& out_;
  int head_;
  std::vector<float> keys_, values_;  // [S][D], [S][Dv]
  std::vector<float> key_gradient_, value_gradient_;
  std::map<uint64_t, TurnedKeys> sides_;
  EncodingGradients encoding_;

  // Of the query in work.
  std::vector<float> raw_;
  std::vector<Span> spans_;
  std::vector<TurnedQuery> turned_;
  std::vector<double> state_;
  int64_t begin_ = 0;
};

Result<void> check_gradient(const char* name, const ConstHeadsView& view, const ConstHeadsView& like) {
  if (view.data == nullptr) return {};
  if (view.dtype != DType::kF32 || view.tokens != like.tokens || view.heads != like.heads || view.dim != like.dim) {
    return fail(ErrorCode::kInvalidArgument, "[attention_backward] {}: expected f32 [{}][{}][{}], but got {} [{}][{}][{}]",
                name, like.tokens, like.heads, like.dim, to_string(view.dtype), view.tokens, view.heads, view.dim);
  }
  return {};
}

}  // namespace

Result<void> attention_backward(const AttentionInputs& inputs, const AttentionOptions& options, ConstHeadsView out_gradient,
                                const AttentionGradients& gradients) {
  const HeadsView out = {const_cast<void*>(out_gradient.data),
                         out_gradient.dtype,
                         out_gradient.tokens,
                         out_gradient.heads,
                         out_gradient.dim,
                         out_gradient.token_stride,
                         out_gradient.head_stride};
  ROPEWALK_TRY(const AttentionShape shape, check_attention("attention_backward", inputs, options, out));
  ROPEWALK_CHECK_OK(check_gradient("q gradient", gradients.q, inputs.q));
  ROPEWALK_CHECK_OK(check_gradient("k gradient", gradients.k, inputs.k));
  ROPEWALK_CHECK_OK(check_gradient("v gradient", gradients.v, inputs.v));
  if (inputs.score != nullptr) {
    const PosRange distances = distances_of(inputs, options);
    ROPEWALK_CHECK_OK(inputs.score->prepare(distances.first, distances.last));
  }
  const Visibility visibility(inputs, options);
  std::vector<std::optional<Error>> errors(static_cast<size_t>(shape.key_heads));
  std::vector<EncodingGradients> parts(static_cast<size_t>(shape.key_heads));
  parallel_for({options.threads}, shape.key_heads, [&](int64_t head, int) {
    KeyHead work(inputs, options, shape, visibility, out_gradient, gradients, static_cast<int>(head));
    if (const auto done = work.run(); !done) errors[static_cast<size_t>(head)] = done.error();
    parts[static_cast<size_t>(head)] = std::move(work.encoding());
  });
  for (const auto& error : errors) {
    if (error) return *error;
  }
  if (gradients.encoding == nullptr) return {};
  EncodingGradients all;
  for (const EncodingGradients& part : parts) all.add(part);
  if (inputs.score != nullptr) inputs.score->finish_gradients(all);
  gradients.encoding->add(all);
  return {};
}

}  // namespace ropewalk
