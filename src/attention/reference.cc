// The oracle: attention as the definition reads, in double, one query and head at a time. Nothing here is fast, nothing is
// shared with the tiled kernel but the check of its arguments.
#include "attention/reference.h"

#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "attention/inputs.h"
#include "base/fail.h"
#include "ropewalk/attention.h"

namespace ropewalk {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double element(const ConstHeadsView& view, int64_t token, int head, int i) {
  const int64_t at = token * view.token_stride + head * view.head_stride + i;
  switch (view.dtype) {
    case DType::kF16: return static_cast<double>(to_f32(static_cast<const f16_t*>(view.data)[at]));
    case DType::kBF16: return static_cast<double>(to_f32(static_cast<const bf16_t*>(view.data)[at]));
    default: return static_cast<double>(static_cast<const float*>(view.data)[at]);
  }
}

std::vector<double> row_of(const ConstHeadsView& view, int64_t token, int head) {
  std::vector<double> row(static_cast<size_t>(view.dim));
  for (int i = 0; i < view.dim; ++i) row[static_cast<size_t>(i)] = element(view, token, head, i);
  return row;
}

bool finite(const std::vector<double>& row) {
  for (const double x : row) {
    if (!std::isfinite(x)) return false;
  }
  return true;
}

int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }  // b > 0

// exp(decay d) for the dims of each plane, 1 for the others.
std::vector<double> decay_factors(const RotarySchedule& schedule, int64_t d, size_t dims) {
  std::vector<double> factors(dims, 1.0);
  const size_t planes = schedule.decay.size();
  for (size_t i = 0; i < 2 * planes; ++i) {
    const size_t plane = schedule.pairing == Pairing::kHalves ? i % planes : i / 2;
    factors[static_cast<size_t>(schedule.rotated.begin) + i] = std::exp(schedule.decay[plane] * static_cast<double>(d));
  }
  return factors;
}

// Plane i turns by position * inv_freq[i] (encodings: RoPE), the position of its axis. The product is formed in long double:
// 2^31 radians keep 1e-10.
void rotate_row(const RotarySchedule& schedule, std::span<const double> positions, std::vector<double>& x) {
  const auto begin = static_cast<size_t>(schedule.rotated.begin);
  const size_t planes = schedule.inv_freq.size();
  for (size_t i = 0; i < planes; ++i) {
    const bool halves = schedule.pairing == Pairing::kHalves;
    double& x0 = x[begin + (halves ? i : 2 * i)];
    double& x1 = x[begin + (halves ? i + planes : 2 * i + 1)];
    const size_t axis = positions.size() == 1 || schedule.axis.empty() ? 0 : schedule.axis[i];
    const long double angle = static_cast<long double>(positions[axis]) * static_cast<long double>(schedule.inv_freq[i]);
    const double c = schedule.amplitude * static_cast<double>(std::cos(angle));
    const double s = schedule.amplitude * static_cast<double>(std::sin(angle));
    const double y0 = x0 * c - x1 * s;
    x1 = x1 * c + x0 * s;
    x0 = y0;
  }
}

class Reference {
 public:
  Reference(const AttentionInputs& in, const AttentionOptions& options, const AttentionShape& shape)
      : in_(in), options_(options), shape_(shape) {}

  // out [Dv] for query i of head h. NaN or infinity in a visible key or in the query makes the row NaN.
  std::vector<double> attend(int64_t i, int h) {
    const int kv = h / shape_.group;
    std::vector<double> scores(static_cast<size_t>(shape_.keys), kHidden);
    std::vector<double> out(static_cast<size_t>(shape_.value_dim), 0.0);
    const bool bad_query = !finite(row_of(in_.q, i, h));
    bool any = false;
    for (int64_t j = 0; j < shape_.keys; ++j) {
      if (!visible(i, j)) continue;
      any = true;
      double s = bad_query || !finite_key(j, kv) ? kNaN : score(i, h, j, kv);
      if (options_.softcap > 0) s = options_.softcap * std::tanh(s / options_.softcap);
      scores[static_cast<size_t>(j)] = s;
    }
    if (!any) return out;
    if (in_.score != nullptr) add_score_term(i, h, kv, scores);

    double top = kHidden;
    double sum = 0;
    for (const double s : scores) top = std::fmax(top, s);
    for (double& s : scores) {
      s = s == kHidden ? 0.0 : std::exp(s - top);
      sum += s;
    }
    if (sum == 0) return out;
    for (double& a : scores) a /= sum;
    for (int64_t j = 0; j < shape_.keys; ++j) {
      if (!visible(i, j)) continue;
      for (int c = 0; c < shape_.value_dim; ++c) {
        out[static_cast<size_t>(c)] += scores[static_cast<size_t>(j)] * element(in_.v, j, kv, c);
      }
    }
    if (in_.value != nullptr) add_value_term(i, h, kv, scores, out);
    return out;
  }

 private:
  bool visible(int64_t i, int64_t j) const {
    const auto qi = static_cast<size_t>(i);
    const auto kj = static_cast<size_t>(j);
    const int64_t d = in_.q_pos[qi] - in_.k_pos[kj];
    if (options_.causal && j > in_.q_index + i) return false;
    const Reach& reach = options_.reach;
    const bool outside = reach.window > 0 && (d >= reach.window || (!options_.causal && d <= -reach.window));
    if (outside && !(in_.k_pos[kj] >= 0 && in_.k_pos[kj] < reach.sinks)) return false;
    if (reach.chunk > 0 && floor_divide(in_.q_pos[qi], reach.chunk) != floor_divide(in_.k_pos[kj], reach.chunk)) return false;
    if (!in_.q_segment.empty() && (in_.q_segment[qi] < 0 || in_.q_segment[qi] != in_.k_segment[kj])) return false;
    return in_.mask == nullptr || in_.mask[i * in_.mask_stride + j] != 0;
  }

  // scale * (rotated q . rotated k)
  double score(int64_t i, int h, int64_t j, int kv) {
    const int64_t m = in_.q_pos[static_cast<size_t>(i)];
    const int64_t n = in_.k_pos[static_cast<size_t>(j)];
    const RotarySchedule* schedule = in_.rotary;
    uint64_t side = 0;
    if (in_.pairs != nullptr) {
      const PairMap::Choice choice = in_.pairs->choose({m, m}, {n, n});
      side = choice.at(m, n);
      schedule = &in_.pairs->schedule(side);
    }
    const std::vector<double>& q = rotated_query(i, h, side, schedule);
    const double* k = rotated_keys(kv, side, schedule).data() + j * shape_.dim;
    double dot = 0;
    if (schedule == nullptr || schedule->decay.empty()) {
      for (size_t d = 0; d < q.size(); ++d) dot += q[d] * k[d];
    } else {
      const std::vector<double> factors = decay_factors(*schedule, m - n, q.size());
      for (size_t d = 0; d < q.size(); ++d) dot += q[d] * k[d] * factors[d];
    }
    double scale = shape_.scale;
    if (schedule != nullptr) scale *= schedule->softmax_multiplier * query_multiplier(schedule->query_temperature, m);
    return dot * scale;
  }

  // Of token i: one position, or one an axis.
  static std::vector<double> positions_of(std::span<const int64_t> positions, std::span<const int64_t> axes, int64_t i) {
    std::vector<double> list;
    if (axes.empty()) return {static_cast<double>(positions[static_cast<size_t>(i)])};
    for (auto at = static_cast<size_t>(i); at < axes.size(); at += positions.size())
      list.push_back(static_cast<double>(axes[at]));
    return list;
  }

  // The last one is kept, for its row of the score matrix.
  const std::vector<double>& rotated_query(int64_t i, int h, uint64_t side, const RotarySchedule* schedule) {
    const std::tuple key{i, h, side};
    if (query_key_ == key) return query_;
    query_key_ = key;
    query_ = row_of(in_.q, i, h);
    std::vector<double> position = positions_of(in_.q_pos, in_.q_axes, i);
    if (in_.pairs != nullptr) in_.pairs->query_positions(side, in_.q_pos.subspan(static_cast<size_t>(i), 1), position);
    if (schedule != nullptr) rotate_row(*schedule, position, query_);
    return query_;
  }

  // [S][D], made once for each key head and side.
  const std::vector<double>& rotated_keys(int kv, uint64_t side, const RotarySchedule* schedule) {
    std::vector<double>& rows = keys_[{kv, side}];
    if (!rows.empty()) return rows;
    for (int64_t j = 0; j < shape_.keys; ++j) {
      std::vector<double> k = row_of(in_.k, j, kv);
      std::vector<double> position = positions_of(in_.k_pos, in_.k_axes, j);
      if (in_.pairs != nullptr) in_.pairs->key_positions(side, in_.k_pos.subspan(static_cast<size_t>(j), 1), position);
      if (schedule != nullptr && !in_.k_rotated) rotate_row(*schedule, position, k);
      rows.insert(rows.end(), k.begin(), k.end());
    }
    return rows;
  }

  bool finite_key(int64_t j, int kv) {
    if (finite_keys_.empty()) {
      for (int64_t t = 0; t < shape_.keys; ++t) {
        for (int h = 0; h < shape_.key_heads; ++h) finite_keys_.push_back(finite(row_of(in_.k, t, h)));
      }
    }
    return finite_keys_[static_cast<size_t>(j * shape_.key_heads + kv)];
  }

  ScoreTile tile_of(int64_t i, int h, int kv) {
    q_row_.resize(static_cast<size_t>(shape_.dim));
    for (int d = 0; d < shape_.dim; ++d) q_row_[static_cast<size_t>(d)] = static_cast<float>(element(in_.q, i, h, d));
    ScoreTile tile;
    tile.head = h;
    tile.heads = shape_.heads;
    tile.q_pos = in_.q_pos.subspan(static_cast<size_t>(i), 1);
    tile.k_pos = in_.k_pos;
    tile.q = q_row_.data();
    tile.q_stride = shape_.dim;
    tile.scale = shape_.scale * (in_.rotary != nullptr ? in_.rotary->softmax_multiplier : 1.0);
    if (!in_.q_type.empty()) tile.q_type = in_.q_type.subspan(static_cast<size_t>(i), 1);
    tile.k_type = in_.k_type;
    if (in_.score != nullptr && in_.score->row_state() > 0) {
      state_.assign(static_cast<size_t>(in_.score->row_state()), 0.0);
      tile.state = state_.data();
      tile.state_stride = in_.score->row_state();
    }
    if (in_.score != nullptr && in_.score->needs_content()) {
      k_rows_.resize(static_cast<size_t>(shape_.keys * shape_.dim));
      for (int64_t j = 0; j < shape_.keys; ++j) {
        for (int d = 0; d < shape_.dim; ++d) {
          k_rows_[static_cast<size_t>(j * shape_.dim + d)] = static_cast<float>(element(in_.k, j, kv, d));
        }
      }
      tile.k = k_rows_.data();
      tile.k_stride = shape_.dim;
    }
    return tile;
  }

  void add_score_term(int64_t i, int h, int kv, std::vector<double>& scores) {
    in_.score->add(tile_of(i, h, kv), scores.data(), shape_.keys);
    for (int64_t j = 0; j < shape_.keys; ++j) {
      if (!visible(i, j)) scores[static_cast<size_t>(j)] = kHidden;
    }
  }

  // The term itself is given in float.
  void add_value_term(int64_t i, int h, int kv, const std::vector<double>& weights, std::vector<double>& out) {
    const std::vector<float> narrow(weights.begin(), weights.end());
    std::vector<float> term(out.size(), 0.0F);
    in_.value->add(tile_of(i, h, kv), narrow.data(), shape_.keys, term.data(), shape_.value_dim);
    for (size_t c = 0; c < out.size(); ++c) out[c] += static_cast<double>(term[c]);
  }

  const AttentionInputs& in_;
  const AttentionOptions& options_;
  const AttentionShape& shape_;
  std::tuple<int64_t, int, uint64_t> query_key_{-1, -1, 0};
  std::vector<double> query_;
  std::map<std::pair<int, uint64_t>, std::vector<double>> keys_;
  std::vector<bool> finite_keys_;
  std::vector<float> q_row_, k_rows_;
  std::vector<double> state_;
};

}  // namespace

Result<std::vector<double>> attention_reference_double(const AttentionInputs& inputs, const AttentionOptions& options,
                                                       const HeadsView& out) {
  ROPEWALK_TRY(const AttentionShape shape, check_attention("attention_reference", inputs, options, out));
  if (inputs.score != nullptr) {
    const PosRange distances = distances_of(inputs, options);
    ROPEWALK_CHECK_OK(inputs.score->prepare(distances.first, distances.last));
  }
  Reference reference(inputs, options, shape);
  std::vector<double> rows;
  for (int64_t i = 0; i < shape.queries; ++i) {
    for (int h = 0; h < shape.heads; ++h) {
      const std::vector<double> row = reference.attend(i, h);
      rows.insert(rows.end(), row.begin(), row.end());
    }
  }
  return rows;
}

Result<void> attention_reference(const AttentionInputs& inputs, const AttentionOptions& options, HeadsView out) {
  if (out.dtype != DType::kF32) {
    return fail(ErrorCode::kInvalidArgument, "[attention_reference] out: expected f32, but got {}", to_string(out.dtype));
  }
  ROPEWALK_TRY(const std::vector<double> rows, attention_reference_double(inputs, options, out));
  for (int64_t i = 0; i < out.tokens; ++i) {
    for (int h = 0; h < out.heads; ++h) {
      float* to = static_cast<float*>(out.data) + i * out.token_stride + h * out.head_stride;
      const double* from = rows.data() + (i * out.heads + h) * out.dim;
      for (int c = 0; c < out.dim; ++c) to[c] = static_cast<float>(from[c]);
    }
  }
  return {};
}

}  // namespace ropewalk
