// How queries and keys are rotated: the sides of a pair map, or the one schedule of a call, or nothing. Tables of cos and sin
// are made here, and the packed keys of a side live as long as the side stays in use.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "attention/inputs.h"
#include "attention/visibility.h"
#include "base/aligned.h"
#include "base/parallel.h"
#include "simd/attention_kernels.h"

namespace ropewalk {

// A run of queries that pairs treat alike, and its blocks.
struct QueryRun {
  int64_t begin = 0;
  int64_t end = 0;
};

// One rotation of queries and keys.
struct Side {
  uint64_t key = 0;
  const RotarySchedule* schedule = nullptr;  // null: not rotated here
  double scale = 1;                          // softmax scale with the schedule's multiplier
  int64_t query_begin = 0;                   // query tables start at this query, one a kKeyTile of queries
  std::vector<RotaryTable> query_tables;
  std::vector<float> query_factor;      // temperature, from query_begin
  std::vector<RotaryTable> key_tables;  // one a tile; empty ones not made (yet)
  std::vector<uint8_t> wanted;          // tiles that the run in work needs
  std::vector<uint8_t> packed_tiles;    // tiles that `packed` holds
  AlignedBuffer<float> packed;          // [Hkv][tiles][packed_key_tile], 4-byte elements
};

class Sides {
 public:
  Sides(const AttentionInputs& inputs, const AttentionShape& shape, const Visibility& visibility, int64_t block)
      : in_(inputs), shape_(shape), visibility_(visibility), block_(block) {}

  // The runs of queries: one, or cut at the edges of the pair map.
  std::vector<QueryRun> runs() const;

  // Sides and tables for a run, in parallel. Sides that it does not meet are dropped.
  Result<void> prepare(const QueryRun& run, Threads threads);
  // The packed keys of every side that the run needs and does not have. Not for the way that packs as it goes.
  Result<void> pack(const AttentionKernels& kernels, Threads threads, uint8_t* bad_keys, int64_t bad_stride);

  // How a block meets a tile.
  PairMap::Choice choose(const TokenRange& queries, int64_t tile) const;
  const Side& side(uint64_t key) const;

  // The rotation of queries [begin, begin + count) (count <= what is left of their table) and of a key tile.
  RowRotation query_rotation(const Side& side, int64_t query) const;
  RowRotation key_rotation(const Side& side, int64_t tile) const;
  // Planes of a schedule with decay; 0 without. A pair map's schedules have none.
  int64_t decayed_planes() const { return in_.rotary == nullptr ? 0 : static_cast<int64_t>(in_.rotary->decay.size()); }
  // The position that decay is counted from in a key tile.
  int64_t frame(int64_t tile) const { return visibility_.tile_range(tile).positions.last; }
  static int64_t queries_left_in_table(const Side& side, int64_t query) {
    return kKeyTile - (query - side.query_begin) % kKeyTile;
  }

 private:
  Side* find(uint64_t key);
  Result<void> require(uint64_t key);
  Result<void> make_tables(Side& side, const QueryRun& run, Threads threads);
  Result<RotaryTable> table(const Side& side, int64_t begin, int64_t count, bool queries) const;
  void decay_keys(const Side& side, int64_t tile, RotaryTable& table) const;

  const AttentionInputs& in_;
  const AttentionShape& shape_;
  const Visibility& visibility_;
  int64_t block_;
  std::vector<std::unique_ptr<Side>> sides_;
};

// exp(decay * distance), held where a float is finite.
float decay_factor(double decay, int64_t distance);

// A row source for tokens [begin, begin + count) of a head.
RowSource rows_of(const ConstHeadsView& view, int head, int64_t begin, int64_t count);

}  // namespace ropewalk
