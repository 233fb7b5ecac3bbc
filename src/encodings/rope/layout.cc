#include "encodings/rope/layout.h"

#include "base/fail.h"

namespace ropewalk {

Result<std::vector<int64_t>> rows_for_pairing(int heads, int head_dim, Slice rotated, Pairing to) {
  if (heads < 1 || head_dim < 1 || rotated.begin < 0 || rotated.count < 0 || rotated.count % 2 != 0 ||
      rotated.begin > head_dim || rotated.count > head_dim - rotated.begin) {
    return fail(
        ErrorCode::kInvalidArgument,
        "[layout] expected heads of some size with an even slice inside, but got {} heads of {} and {} dims from dim {}", heads,
        head_dim, rotated.count, rotated.begin);
  }
  const int planes = rotated.count / 2;
  std::vector<int64_t> rows;
  for (int head = 0; head < heads; ++head) {
    for (int i = 0; i < head_dim; ++i) {
      const int at = i - rotated.begin;
      int from = at;
      if (at >= 0 && at < rotated.count) {
        // Interleaved rows 2p, 2p + 1 were rows p and p + R/2; and the other way round.
        from = to == Pairing::kInterleaved ? at / 2 + at % 2 * planes : at % planes * 2 + at / planes;
      }
      rows.push_back(int64_t{head} * head_dim + rotated.begin + from);
    }
  }
  return rows;
}

Result<std::vector<bool>> rotating_layers(int64_t layers, std::span<const int64_t> flags, int64_t interval) {
  if (!flags.empty() && static_cast<int64_t>(flags.size()) != layers) {
    return fail(ErrorCode::kInvalidArgument, "[layout] no_rope_layers: expected {} entries, one a layer, but got {}", layers,
                flags.size());
  }
  if (interval < 0)
    return fail(ErrorCode::kInvalidArgument, "[layout] expected an interval of 0 or more, but got {}", interval);
  std::vector<bool> rotating;
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (flags.empty()) {
      rotating.push_back(interval == 0 || (layer + 1) % interval != 0);
      continue;
    }
    const int64_t flag = flags[static_cast<size_t>(layer)];
    if (flag != 0 && flag != 1)
      return fail(ErrorCode::kInvalidArgument, "[layout] no_rope_layers: expected 0 or 1 for layer {}, but got {}", layer,
                  flag);
    rotating.push_back(flag == 1);
  }
  return rotating;
}

}  // namespace ropewalk
