// Which keys a query sees, tile by tile: causal order, window, segments and mask in one place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/inputs.h"
#include "ropewalk/encoding.h"

namespace ropewalk {

// What a run of tokens is, seen from afar. Padding (segment < 0) is left out of the positions.
struct TokenRange {
  PosRange positions;
  bool sorted = true;  // positions never fall
  bool one_segment = true;
  bool all_padding = true;
  int32_t segment_min = 0;
  int32_t segment_max = 0;
};
TokenRange token_range(std::span<const int64_t> positions, std::span<const int32_t> segments);

class Visibility {
 public:
  enum class Kind : uint8_t {
    kNone,   // no query sees a key
    kRuns,   // each query sees one run of keys, maybe empty
    kMixed,  // bytes say
  };

  Visibility(const AttentionInputs& inputs, const AttentionOptions& options);

  int64_t tiles() const { return static_cast<int64_t>(tiles_.size()); }
  const TokenRange& tile_range(int64_t tile) const { return tiles_[static_cast<size_t>(tile)]; }
  int64_t tile_keys(int64_t tile) const;  // keys of a tile: the last one may be short
  TokenRange query_range(int64_t begin, int64_t end) const;

  // False: surely nothing of the tile is seen. Cheap.
  bool may_see(int64_t begin, int64_t end, const TokenRange& queries, int64_t tile) const;

  // For queries [begin, end): first[i], last[i] = the run that query begin + i sees, columns of the tile; with kMixed
  // seen[i][kKeyTile] says it byte by byte (and the runs are the hulls).
  Kind look(int64_t begin, int64_t end, const TokenRange& queries, int64_t tile, int32_t* first, int32_t* last,
            uint8_t* seen) const;

 private:
  int64_t chunk_of(int64_t position) const;
  bool has_sinks(const TokenRange& keys) const;
  bool sees_all(int64_t begin, const TokenRange& queries, int64_t tile) const;
  bool look_at(int64_t query, int64_t tile, int32_t& first, int32_t& last, uint8_t* seen) const;

  const AttentionInputs& in_;
  bool causal_;
  Reach reach_;
  std::vector<TokenRange> tiles_;
};

}  // namespace ropewalk
