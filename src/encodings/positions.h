// Where the tokens of a batch stand: an int64 position a token, whatever the layout of the batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ropewalk/error.h"

namespace ropewalk {

// A row of a padded batch: position = number of real tokens before this one (mask[i] != 0 is real). Padding gets position 0 and
// must be hidden by a segment < 0, which padding_segments gives (real tokens: 0).
std::vector<int64_t> positions_from_mask(std::span<const uint8_t> mask);
std::vector<int32_t> padding_segments(std::span<const uint8_t> mask);

// Documents packed in one row: each counts from 0. Segments number the documents. Errors: kInvalidArgument for a length < 0.
struct PackedRow {
  std::vector<int64_t> positions;
  std::vector<int32_t> segments;
};
Result<PackedRow> positions_packed(std::span<const int64_t> lengths);

// Draft tokens of a tree behind `cached` tokens: the position is the depth, so siblings share it. parent[i] < i, or -1 for a
// root. mask [T][cached + T]: a token sees the cache, its ancestors and itself. Errors: kInvalidArgument for a parent that does
// not come before its child, kTooLarge for a mask beyond memory.
struct DraftTree {
  std::vector<int64_t> positions;  // [T]
  std::vector<uint8_t> mask;       // [T][cached + T], 1 = visible
};
Result<DraftTree> positions_tree(int64_t cached, std::span<const int32_t> parent);

// [rows][T] positions for a batch of B rows: rows == B as they are, rows == 1 used for each. Anything else: kInvalidArgument
// naming both numbers.
Result<std::vector<int64_t>> broadcast_positions(std::span<const int64_t> positions, int64_t rows, int64_t batch);

}  // namespace ropewalk
