#include "encodings/positions.h"

#include <algorithm>
#include <new>

#include "base/fail.h"

namespace ropewalk {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 40;  // more than any memory holds

}  // namespace

std::vector<int64_t> positions_from_mask(std::span<const uint8_t> mask) {
  std::vector<int64_t> positions;
  int64_t real = 0;
  for (const uint8_t m : mask) positions.push_back(m != 0 ? real++ : 0);
  return positions;
}

std::vector<int32_t> padding_segments(std::span<const uint8_t> mask) {
  std::vector<int32_t> segments;
  for (const uint8_t m : mask) segments.push_back(m != 0 ? 0 : -1);
  return segments;
}

Result<PackedRow> positions_packed(std::span<const int64_t> lengths) {
  PackedRow row;
  int64_t total = 0;
  for (size_t d = 0; d < lengths.size(); ++d) {
    if (lengths[d] < 0) {
      return fail(ErrorCode::kInvalidArgument, "[positions] expected the length of document {} to be at least 0, but got {}", d,
                  lengths[d]);
    }
    if (lengths[d] > kMaxElements - total)
      return fail(ErrorCode::kTooLarge, "[positions] documents 0 to {} are together larger than memory", d);
    total += lengths[d];
  }
  try {
    row.positions.reserve(static_cast<size_t>(total));
    row.segments.reserve(static_cast<size_t>(total));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLarge, "[positions] no memory for {} packed tokens", total);
  }
  for (size_t d = 0; d < lengths.size(); ++d) {
    for (int64_t m = 0; m < lengths[d]; ++m) {
      row.positions.push_back(m);
      row.segments.push_back(static_cast<int32_t>(d));
    }
  }
  return row;
}

Result<DraftTree> positions_tree(int64_t cached, std::span<const int32_t> parent) {
  if (cached < 0)
    return fail(ErrorCode::kInvalidArgument, "[positions] expected a number of cached tokens >= 0, but got {}", cached);
  const auto tokens = static_cast<int64_t>(parent.size());
  if (cached > kMaxElements) return fail(ErrorCode::kTooLarge, "[positions] {} cached tokens are larger than memory", cached);
  const int64_t keys = cached + tokens;
  if (tokens > 0 && keys > kMaxElements / tokens) {
    return fail(ErrorCode::kTooLarge, "[positions] a mask of {} tokens and {} keys is larger than memory", tokens, keys);
  }
  DraftTree tree;
  try {
    tree.mask.assign(static_cast<size_t>(tokens * keys), 0);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLarge, "[positions] no memory for a mask of {} tokens and {} keys", tokens, keys);
  }
  for (int64_t i = 0; i < tokens; ++i) {
    const int32_t up = parent[static_cast<size_t>(i)];
    if (up < -1 || up >= i) {
      return fail(ErrorCode::kInvalidArgument,
                  "[positions] expected the parent of draft token {} to be -1 or to come before it, but got {}", i, up);
    }
    uint8_t* row = tree.mask.data() + i * keys;
    if (up < 0) {
      tree.positions.push_back(cached);
      std::fill_n(row, cached, uint8_t{1});
    } else {
      tree.positions.push_back(tree.positions[static_cast<size_t>(up)] + 1);
      std::copy_n(tree.mask.data() + up * keys, keys, row);  // what the parent sees, the parent included
    }
    row[cached + i] = 1;
  }
  return tree;
}

Result<std::vector<int64_t>> broadcast_positions(std::span<const int64_t> positions, int64_t rows, int64_t batch) {
  if (rows < 1 || batch < 1 || (rows != batch && rows != 1) || positions.size() % static_cast<size_t>(rows) != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "[positions] expected positions for 1 row or for the batch of {} rows, but got {} in {} rows", batch,
                positions.size(), rows);
  }
  std::vector<int64_t> out;
  for (int64_t b = 0; b < batch; b += rows) out.insert(out.end(), positions.begin(), positions.end());
  return out;
}

}  // namespace ropewalk
