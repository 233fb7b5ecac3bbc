// Defaults of the encoding seams (ropewalk/encoding.h).
#include "ropewalk/encoding.h"

#include <vector>

namespace ropewalk {

void ScoreTerm::add(const ScoreTile& tile, double* scores, int64_t stride) const {
  const auto rows = static_cast<int64_t>(tile.q_pos.size());
  const auto cols = static_cast<int64_t>(tile.k_pos.size());
  std::vector<float> term(static_cast<size_t>(rows * cols), 0.0F);
  add(tile, term.data(), cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) scores[r * stride + c] += static_cast<double>(term[static_cast<size_t>(r * cols + c)]);
  }
}

void PairMap::query_positions(uint64_t, std::span<const int64_t> m, std::span<double> out) const {
  for (size_t i = 0; i < m.size(); ++i) out[i] = static_cast<double>(m[i]);
}

void PairMap::key_positions(uint64_t, std::span<const int64_t> n, std::span<double> out) const {
  for (size_t i = 0; i < n.size(); ++i) out[i] = static_cast<double>(n[i]);
}

}  // namespace ropewalk
