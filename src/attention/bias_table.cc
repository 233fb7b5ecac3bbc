#include "attention/bias_table.h"

#include <algorithm>
#include <atomic>

#include "base/fail.h"
#include "simd/attention_kernels.h"

namespace ropewalk {
namespace {

constexpr double kLog2e = 1.4426950408889634;
constexpr int64_t kPad = kKeyTile + kMaxPanel;  // what kernels may read behind a row
constexpr double kLargest = 1e38;               // of a finite bias that a float still holds in log2 units

}  // namespace

Result<void> BiasTable::make(const AttentionInputs& inputs, const AttentionShape& shape, PosRange distances,
                             const Threads& threads) {
  const DistanceTerm* term = inputs.score == nullptr ? nullptr : inputs.score->by_distance();
  if (term == nullptr || inputs.q_pos.empty() || inputs.k_pos.empty()) return {};
  const int64_t least = distances.first;
  largest_ = distances.last;
  const int64_t count = largest_ - least + 1;
  if (count > 4 * (shape.queries + shape.keys)) return {};

  stride_ = count + kPad;
  ROPEWALK_TRY(AlignedBuffer<float> values, AlignedBuffer<float>::make(shape.heads * stride_));
  std::atomic<bool> plain = true;
  constexpr int64_t kPiece = 1024;
  const int64_t pieces = (count + kPiece - 1) / kPiece;
  parallel_for(threads, shape.heads * pieces, [&](int64_t index, int) {
    const auto head = static_cast<int>(index / pieces);
    const int64_t begin = index % pieces * kPiece;
    const int64_t size = std::min(kPiece, count - begin);
    double biases[kPiece];
    term->fill(head, shape.heads, least + begin, std::span(biases, static_cast<size_t>(size)));
    float* end = values.data() + head * stride_ + (count - begin);
    for (int64_t i = 0; i < size; ++i) {
      if (!(biases[i] < kLargest)) plain = false;
      end[-1 - i] = static_cast<float>(biases[i] * kLog2e);
    }
  });
  for (int head = 0; head < shape.heads; ++head) std::fill_n(values.data() + head * stride_ + count, kPad, 0.0F);
  if (!plain) return {};

  consecutive_ = consecutive_tiles(inputs.k_pos);
  values_ = std::move(values);
  return {};
}

}  // namespace ropewalk
