#include "attention/sides.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/fail.h"

namespace ropewalk {

RowSource rows_of(const ConstHeadsView& view, int head, int64_t begin, int64_t count) {
  const int64_t offset = begin * view.token_stride + head * view.head_stride;
  const auto* bytes = static_cast<const unsigned char*>(view.data) + offset * static_cast<int64_t>(size_of(view.dtype));
  return {bytes, view.dtype, view.token_stride, static_cast<int>(count), view.dim};
}

std::vector<QueryRun> Sides::runs() const {
  if (in_.pairs == nullptr) return {{0, shape_.queries}};
  std::vector<QueryRun> runs;
  int64_t edge = 0;
  for (int64_t i = 0; i < shape_.queries; ++i) {
    // Positions on one side of every edge have the same next one.
    const int64_t next = in_.pairs->next_edge(in_.q_pos[static_cast<size_t>(i)]);
    if (runs.empty() || next != edge) runs.push_back({i, i});
    runs.back().end = i + 1;
    edge = next;
  }
  return runs;
}

PairMap::Choice Sides::choose(const TokenRange& queries, int64_t tile) const {
  if (in_.pairs == nullptr) return {};
  return in_.pairs->choose(queries.positions, visibility_.tile_range(tile).positions);
}

const Side& Sides::side(uint64_t key) const {
  const auto found = std::find_if(sides_.begin(), sides_.end(), [&](const auto& side) { return side->key == key; });
  return **found;
}

Side* Sides::find(uint64_t key) {
  for (const auto& side : sides_) {
    if (side->key == key) return side.get();
  }
  return nullptr;
}

Result<void> Sides::require(uint64_t key) {
  if (find(key) != nullptr) return {};
  auto side = std::make_unique<Side>();
  side->key = key;
  side->schedule = in_.pairs != nullptr ? &in_.pairs->schedule(key) : in_.rotary;
  side->scale = shape_.scale;
  if (side->schedule != nullptr) {
    ROPEWALK_CHECK_OK(check_schedule("attention", *side->schedule, shape_.dim));
    if (in_.pairs != nullptr && !side->schedule->decay.empty())
      return fail(ErrorCode::kUnsupported, "[attention] pairs: expected schedules without decay, but got one with it");
    side->scale *= side->schedule->softmax_multiplier;
  }
  const auto tiles = static_cast<size_t>(visibility_.tiles());
  side->key_tables.resize(tiles);
  side->wanted.resize(tiles);
  side->packed_tiles.resize(tiles);
  sides_.push_back(std::move(side));
  return {};
}

Result<void> Sides::prepare(const QueryRun& run, Threads threads) {
  for (const auto& side : sides_) std::fill(side->wanted.begin(), side->wanted.end(), uint8_t{0});
  for (int64_t begin = run.begin; begin < run.end; begin += block_) {
    const int64_t end = std::min(run.end, begin + block_);
    const TokenRange queries = visibility_.query_range(begin, end);
    for (int64_t tile = 0; tile < visibility_.tiles(); ++tile) {
      if (!visibility_.may_see(begin, end, queries, tile)) continue;
      const PairMap::Choice choice = choose(queries, tile);
      for (int s = 0; s < choice.sides; ++s) {
        ROPEWALK_CHECK_OK(require(choice.side[s]));
        find(choice.side[s])->wanted[static_cast<size_t>(tile)] = 1;
      }
    }
  }
  std::erase_if(sides_, [](const auto& side) {
    return std::none_of(side->wanted.begin(), side->wanted.end(), [](uint8_t wanted) { return wanted != 0; });
  });
  for (const auto& side : sides_) ROPEWALK_CHECK_OK(make_tables(*side, run, threads));
  return {};
}

// Padding may carry any position: it is never looked at.
Result<RotaryTable> Sides::table(const Side& side, int64_t begin, int64_t count, bool queries) const {
  const RotarySchedule* schedule = side.schedule;
  if (schedule->inv_freq.empty()) return RotaryTable{};  // a temperature alone
  const auto all = queries ? in_.q_pos : in_.k_pos;
  const auto axes = queries ? in_.q_axes : in_.k_axes;
  const auto segments = queries ? in_.q_segment : in_.k_segment;
  std::vector<int64_t> whole;  // a row, or one an axis
  for (size_t row = 0; row < (axes.empty() ? all.size() : axes.size()); row += all.size()) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(begin + count); ++i) {
      const bool padding = !segments.empty() && segments[i] < 0;
      whole.push_back(padding ? 0 : axes.empty() ? all[i] : axes[row + i]);
    }
  }
  RotarySchedule one_axis;
  if (!schedule->axis.empty() && axes.empty()) {
    one_axis = *schedule;
    one_axis.axis.clear();
    schedule = &one_axis;
  }
  if (in_.pairs == nullptr) return make_rotary_table(*schedule, whole);
  std::vector<double> real(whole.size());
  if (queries) {
    in_.pairs->query_positions(side.key, whole, real);
  } else {
    in_.pairs->key_positions(side.key, whole, real);
  }
  return make_rotary_table(*schedule, real);
}

// exp(decay d) is formed as exp(decay (m - f)) exp(-decay (n - f)) with f a position of the key tile, so that neither over- nor
// underflows at long range before the product does. This is the keys' half.
void Sides::decay_keys(const Side& side, int64_t tile, RotaryTable& table) const {
  if (side.schedule->decay.empty()) return;
  const auto planes = static_cast<size_t>(table.planes);
  for (size_t j = 0; j < static_cast<size_t>(table.positions); ++j) {
    const int64_t n = in_.k_pos[static_cast<size_t>(tile * kKeyTile) + j];
    for (size_t i = 0; i < planes; ++i) {
      const float factor = decay_factor(-side.schedule->decay[i], n - frame(tile));
      table.cos[j * planes + i] *= factor;
      table.sin[j * planes + i] *= factor;
    }
  }
}

float decay_factor(double decay, int64_t distance) {
  constexpr double kMost = 80;  // e^80: a finite float, and its square root's worth of room in a product
  return static_cast<float>(std::exp(std::clamp(decay * static_cast<double>(distance), -kMost, kMost)));
}

Result<void> Sides::make_tables(Side& side, const QueryRun& run, Threads threads) {
  if (side.schedule == nullptr) return {};
  const auto queries = static_cast<size_t>(run.end - run.begin);
  const size_t query_tables = (queries + kKeyTile - 1) / kKeyTile;
  side.query_begin = run.begin;
  side.query_tables.assign(query_tables, {});
  side.query_factor.assign(queries, 1.0F);
  if (side.schedule->query_temperature.form != QueryTemperature::Form::kNone) {
    for (size_t i = 0; i < queries; ++i) {
      const int64_t m = in_.q_pos[static_cast<size_t>(run.begin) + i];
      side.query_factor[i] = static_cast<float>(query_multiplier(side.schedule->query_temperature, m));
    }
  }
  const size_t key_tables = in_.k_rotated ? 0 : side.key_tables.size();
  std::vector<std::optional<Error>> errors(query_tables + key_tables);
  parallel_for(threads, static_cast<int64_t>(errors.size()), [&](int64_t index, int) {
    const auto at = static_cast<size_t>(index);
    const bool is_query = at < query_tables;
    const size_t tile = is_query ? at : at - query_tables;
    RotaryTable& to = is_query ? side.query_tables[tile] : side.key_tables[tile];
    if (!is_query && (side.wanted[tile] == 0 || to.positions != 0)) return;
    const auto begin = static_cast<int64_t>(tile) * kKeyTile;
    const int64_t left = (is_query ? static_cast<int64_t>(queries) : shape_.keys) - begin;
    auto made = table(side, is_query ? run.begin + begin : begin, std::min<int64_t>(kKeyTile, left), is_query);
    if (made) {
      to = *std::move(made);
      if (!is_query) decay_keys(side, begin / kKeyTile, to);
    } else {
      errors[at] = made.error();
    }
  });
  for (const auto& error : errors) {
    if (error) return *error;
  }
  return {};
}

Result<void> Sides::pack(const AttentionKernels& kernels, Threads threads, uint8_t* bad_keys, int64_t bad_stride) {
  const int64_t tiles = visibility_.tiles();
  const int64_t tile_size = packed_key_tile(kernels, shape_.dim);
  for (const auto& side : sides_) {
    if (side->packed.size() == 0) {
      ROPEWALK_TRY(side->packed, AlignedBuffer<float>::make(shape_.key_heads * tiles * tile_size));
    }
    std::vector<int64_t> missing;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const auto at = static_cast<size_t>(tile);
      if (side->wanted[at] == 0 || side->packed_tiles[at] != 0) continue;
      missing.push_back(tile);
      side->packed_tiles[at] = 1;
    }
    const auto count = static_cast<int64_t>(missing.size());
    parallel_for(threads, shape_.key_heads * count, [&](int64_t index, int) {
      const auto head = static_cast<int>(index / count);
      const int64_t tile = missing[static_cast<size_t>(index % count)];
      const RowSource source = rows_of(in_.k, head, tile * kKeyTile, visibility_.tile_keys(tile));
      kernels.pack_keys(source, key_rotation(*side, tile), side->packed.data() + (head * tiles + tile) * tile_size,
                        bad_keys + head * bad_stride + tile * kKeyTile);
    });
  }
  return {};
}

RowRotation Sides::query_rotation(const Side& side, int64_t query) const {
  if (side.schedule == nullptr || side.schedule->inv_freq.empty()) return {};
  const int64_t at = query - side.query_begin;
  const RotaryTable& table = side.query_tables[static_cast<size_t>(at / kKeyTile)];
  const int64_t offset = at % kKeyTile * table.planes;
  return {table.cos.data() + offset, table.sin.data() + offset, table.planes, side.schedule->rotated.begin,
          side.schedule->pairing == Pairing::kInterleaved};
}

RowRotation Sides::key_rotation(const Side& side, int64_t tile) const {
  if (side.schedule == nullptr || side.schedule->inv_freq.empty()) return {};
  const bool interleaved = side.schedule->pairing == Pairing::kInterleaved;
  if (in_.k_rotated)
    return {nullptr, nullptr, static_cast<int>(side.schedule->inv_freq.size()), side.schedule->rotated.begin, interleaved};
  const RotaryTable& table = side.key_tables[static_cast<size_t>(tile)];
  return {table.cos.data(), table.sin.data(), table.planes, side.schedule->rotated.begin, interleaved};
}

}  // namespace ropewalk
