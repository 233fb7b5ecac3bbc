#include "attention/visibility.h"

#include <algorithm>
#include <cstring>

#include "simd/attention_kernels.h"

namespace ropewalk {

TokenRange token_range(std::span<const int64_t> positions, std::span<const int32_t> segments) {
  TokenRange range;
  int64_t before = positions.empty() ? 0 : positions.front();
  for (size_t i = 0; i < positions.size(); ++i) {
    range.sorted = range.sorted && positions[i] >= before;
    before = positions[i];
    const int32_t segment = segments.empty() ? 0 : segments[i];
    if (i == 0) range.segment_min = range.segment_max = segment;
    range.segment_min = std::min(range.segment_min, segment);
    range.segment_max = std::max(range.segment_max, segment);
    if (segment < 0) continue;
    if (range.all_padding) range.positions = {positions[i], positions[i]};
    range.all_padding = false;
    range.positions.first = std::min(range.positions.first, positions[i]);
    range.positions.last = std::max(range.positions.last, positions[i]);
  }
  range.one_segment = range.segment_min == range.segment_max;
  return range;
}

Visibility::Visibility(const AttentionInputs& inputs, const AttentionOptions& options)
    : in_(inputs), causal_(options.causal), reach_(options.reach) {
  const size_t keys = inputs.k_pos.size();
  for (size_t begin = 0; begin < keys; begin += kKeyTile) {
    const size_t count = std::min<size_t>(kKeyTile, keys - begin);
    tiles_.push_back(token_range(inputs.k_pos.subspan(begin, count),
                                 inputs.k_segment.empty() ? inputs.k_segment : inputs.k_segment.subspan(begin, count)));
  }
}

int64_t Visibility::tile_keys(int64_t tile) const {
  return std::min<int64_t>(kKeyTile, static_cast<int64_t>(in_.k_pos.size()) - tile * kKeyTile);
}

TokenRange Visibility::query_range(int64_t begin, int64_t end) const {
  const auto from = static_cast<size_t>(begin);
  const auto count = static_cast<size_t>(end - begin);
  return token_range(in_.q_pos.subspan(from, count),
                     in_.q_segment.empty() ? in_.q_segment : in_.q_segment.subspan(from, count));
}

int64_t Visibility::chunk_of(int64_t position) const { return position / reach_.chunk - (position % reach_.chunk < 0 ? 1 : 0); }

bool Visibility::has_sinks(const TokenRange& keys) const {
  return keys.positions.last >= 0 && keys.positions.first < reach_.sinks;
}

bool Visibility::may_see(int64_t, int64_t end, const TokenRange& queries, int64_t tile) const {
  const TokenRange& keys = tile_range(tile);
  if (queries.all_padding || keys.all_padding) return false;
  if (causal_ && tile * kKeyTile > in_.q_index + end - 1) return false;
  const int64_t window = reach_.window;
  if (window > 0 && !has_sinks(keys)) {
    if (queries.positions.first - keys.positions.last >= window) return false;
    if (!causal_ && keys.positions.first - queries.positions.last >= window) return false;
  }
  if (reach_.chunk > 0 && (chunk_of(queries.positions.first) > chunk_of(keys.positions.last) ||
                           chunk_of(queries.positions.last) < chunk_of(keys.positions.first)))
    return false;
  return queries.segment_max >= keys.segment_min && keys.segment_max >= queries.segment_min;
}

bool Visibility::sees_all(int64_t begin, const TokenRange& queries, int64_t tile) const {
  const TokenRange& keys = tile_range(tile);
  if (in_.mask != nullptr) return false;
  if (!queries.one_segment || !keys.one_segment || queries.segment_min != keys.segment_min || keys.segment_min < 0)
    return false;
  if (causal_ && tile * kKeyTile + tile_keys(tile) - 1 > in_.q_index + begin) return false;
  if (reach_.chunk > 0 && (chunk_of(queries.positions.first) != chunk_of(keys.positions.last) ||
                           chunk_of(queries.positions.last) != chunk_of(keys.positions.first)))
    return false;
  if (reach_.window == 0) return true;
  if (keys.positions.first >= 0 && keys.positions.last < reach_.sinks) return true;
  if (queries.positions.last - keys.positions.first >= reach_.window) return false;
  return causal_ || keys.positions.last - queries.positions.first < reach_.window;
}

// One query. Returns whether what it sees is one run; if not, `seen` is filled.
bool Visibility::look_at(int64_t query, int64_t tile, int32_t& first, int32_t& last, uint8_t* seen) const {
  const TokenRange& keys = tile_range(tile);
  const int64_t begin = tile * kKeyTile;
  const auto positions = in_.k_pos.subspan(static_cast<size_t>(begin), static_cast<size_t>(tile_keys(tile)));
  const int64_t m = in_.q_pos[static_cast<size_t>(query)];
  const int32_t segment = in_.q_segment.empty() ? 0 : in_.q_segment[static_cast<size_t>(query)];
  int64_t lo = 0;
  int64_t hi = tile_keys(tile);
  if (causal_) hi = std::clamp<int64_t>(in_.q_index + query + 1 - begin, 0, hi);
  const int64_t window = reach_.window;
  const bool sinks = window > 0 && has_sinks(keys);
  const auto before = [&](int64_t position) {
    return std::lower_bound(positions.begin(), positions.end(), position) - positions.begin();
  };
  if (window > 0 && keys.sorted && !sinks) {
    lo = before(m - window + 1);
    if (!causal_) hi = std::min<int64_t>(hi, before(m + window));
  }
  if (reach_.chunk > 0 && keys.sorted) {
    lo = std::max<int64_t>(lo, before(chunk_of(m) * reach_.chunk));
    hi = std::min<int64_t>(hi, before((chunk_of(m) + 1) * reach_.chunk));
  }
  if (segment < 0 || (keys.one_segment && segment != keys.segment_min)) hi = 0;
  first = static_cast<int32_t>(std::min(lo, hi));
  last = static_cast<int32_t>(hi);
  const bool scan = in_.mask != nullptr || !keys.one_segment || sinks || ((window > 0 || reach_.chunk > 0) && !keys.sorted);
  if (!scan) return true;  // and so for every query of the tile
  std::memset(seen, 0, kKeyTile);
  int32_t count = 0;
  int32_t seen_first = last;
  int32_t seen_last = first;
  const uint8_t* mask = in_.mask == nullptr ? nullptr : in_.mask + query * in_.mask_stride + begin;
  for (int32_t j = first; j < last; ++j) {
    const int64_t n = positions[static_cast<size_t>(j)];
    const bool outside = window > 0 && (m - n >= window || (!causal_ && m - n <= -window));
    if (outside && !(n >= 0 && n < reach_.sinks)) continue;
    if (reach_.chunk > 0 && chunk_of(n) != chunk_of(m)) continue;
    if (!keys.one_segment && in_.k_segment[static_cast<size_t>(begin + j)] != segment) continue;
    if (mask != nullptr && mask[j] == 0) continue;
    seen[j] = 1;
    seen_first = std::min(seen_first, j);
    seen_last = j + 1;
    ++count;
  }
  first = count == 0 ? 0 : seen_first;
  last = count == 0 ? 0 : seen_last;
  return count == last - first;
}

Visibility::Kind Visibility::look(int64_t begin, int64_t end, const TokenRange& queries, int64_t tile, int32_t* first,
                                  int32_t* last, uint8_t* seen) const {
  if (!may_see(begin, end, queries, tile)) return Kind::kNone;
  const int64_t count = end - begin;
  if (sees_all(begin, queries, tile)) {
    std::fill(first, first + count, 0);
    std::fill(last, last + count, static_cast<int32_t>(tile_keys(tile)));
    return Kind::kRuns;
  }
  bool runs = true;
  bool any = false;
  for (int64_t i = 0; i < count; ++i) {
    runs &= look_at(begin + i, tile, first[i], last[i], seen + i * kKeyTile);
    any = any || first[i] < last[i];
  }
  if (!any) return Kind::kNone;
  return runs ? Kind::kRuns : Kind::kMixed;
}

}  // namespace ropewalk
