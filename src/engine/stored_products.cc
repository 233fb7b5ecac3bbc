#include "engine/stored_products.h"

#include <algorithm>
#include <array>
#include <vector>

#include "simd/ops.h"

namespace ropewalk {
namespace {

// Rows of W in flight: as many as fit in about 16 KiB of the first-level cache.
int64_t rows_in_flight(int64_t cols) { return std::clamp<int64_t>(4096 / std::max<int64_t>(cols, 1), 1, 8); }

}  // namespace

void multiply_stored(std::span<const RowRange> parts, const float* a, int64_t rows, bool accumulate, float* out,
                     Threads threads) {
  const int64_t inputs = parts.front().tensor->cols();
  int64_t outputs = 0;
  for (const RowRange& part : parts) outputs += part.count;
  const int64_t step = rows_in_flight(inputs);
  parallel_ranges(threads, outputs, 32, [&](int64_t begin, int64_t end, int) {
    std::vector<float> expanded(static_cast<size_t>(step * inputs));
    std::array<float, kFewRows> sums{};
    int64_t at = 0;  // first output of the part
    for (const RowRange& part : parts) {
      const int64_t last = std::min(end, at + part.count);
      for (int64_t row = std::max(begin, at); row < last; row += step) {
        const int64_t count = std::min(step, last - row);
        dequantize_rows(*part.tensor, part.first + row - at, count, expanded.data());
        for (int64_t i = 0; i < count; ++i) {
          ops::dot_columns(expanded.data() + i * inputs, a, rows, inputs, sums.data(), 1);
          for (int64_t r = 0; r < rows; ++r) {
            float& to = out[r * outputs + row + i];
            to = accumulate ? to + sums[static_cast<size_t>(r)] : sums[static_cast<size_t>(r)];
          }
        }
      }
      at += part.count;
    }
  });
}

void StoredProducts::multiply(LayerMatrix which, const float* a, int64_t rows, bool accumulate, float* out, Workspace&) const {
  const int64_t q = int64_t{spec_.heads} * spec_.head_dim, kv = int64_t{spec_.kv_heads} * spec_.head_dim;
  std::array<RowRange, 3> parts{};
  size_t count = 1;
  switch (which) {
    case LayerMatrix::kQkv:
      parts = {{{layer_.wq, 0, q}, {layer_.wk, 0, kv}, {layer_.wv, 0, kv}}};
      count = 3;
      break;
    case LayerMatrix::kOutput: parts[0] = {layer_.wo, 0, spec_.width}; break;
    case LayerMatrix::kGateUp:
      parts[0] = {layer_.w_gate, 0, spec_.ffn_width};
      parts[1] = {layer_.w_up, 0, spec_.ffn_width};
      count = 2;
      break;
    case LayerMatrix::kDown: parts[0] = {layer_.w_down, 0, spec_.width}; break;
  }
  multiply_stored(std::span(parts).first(count), a, rows, accumulate, out, threads_);
}

}  // namespace ropewalk
