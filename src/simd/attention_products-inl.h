// Register tiles, the two products and the softmax between them. Compiled once a SIMD target, and once more for AVX512_BF16.
#if defined(ROPEWALK_SIMD_ATTENTION_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_SIMD_ATTENTION_PRODUCTS_INL_H_
#undef ROPEWALK_SIMD_ATTENTION_PRODUCTS_INL_H_
#else
#define ROPEWALK_SIMD_ATTENTION_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "simd/attention_kernels.h"
#include "simd/unroll.h"

ROPEWALK_BEFORE_TARGET
namespace ropewalk {
namespace HWY_NAMESPACE {
namespace ROPEWALK_VARIANT {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// 32 registers: 24 accumulators leave room for the panel's vectors and a broadcast. 16 registers: 12 accumulators. The SSE
// targets have no FMA, so a product needs a register of its own.
#if HWY_CAP_GE512
constexpr int kRows = 6;
constexpr int kVecs = 4;
#elif HWY_ARCH_ARM_A64 || HWY_TARGET == HWY_SCALAR
constexpr int kRows = 6;
constexpr int kVecs = 4;
#elif HWY_CAP_GE256
constexpr int kRows = 6;
constexpr int kVecs = 2;
#else
constexpr int kRows = 4;
constexpr int kVecs = 2;
#endif

using DF = hn::CappedTag<float, kMaxLanes>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
constexpr int kLanes = static_cast<int>(HWY_LANES(float)) < kMaxLanes ? static_cast<int>(HWY_LANES(float)) : kMaxLanes;
constexpr int kPanel = kVecs * kLanes;
static_assert(kKeyTile % kPanel == 0 && kPanel <= kMaxPanel);

// ---- the two product types

struct F32Product {
  using Element = float;
  static constexpr int kPair = 1;
  static constexpr int kDepthStep = 1;
  static constexpr int kWeightDegree = 5;
  static HWY_INLINE VF load(const float* p) { return hn::Load(DF(), p); }
  static HWY_INLINE VF broadcast(const float* p) { return hn::Set(DF(), *p); }
  static HWY_INLINE VF step(VF sum, VF a, VF b) { return hn::MulAdd(a, b, sum); }
};

// A pair of bf16 in 32 bits: the even one below. Products and sums are f32.
struct Bf16Product {
  using Element = uint32_t;
  using VU = hn::Vec<DU>;
  static constexpr int kPair = 2;
  static constexpr int kDepthStep = 1;
  static constexpr int kWeightDegree = 3;
  static HWY_INLINE VU load(const uint32_t* p) { return hn::Load(DU(), p); }
  static HWY_INLINE VU broadcast(const uint32_t* p) { return hn::Set(DU(), *p); }
  static HWY_INLINE VF step(VF sum, VU a, VU b) { return dot2_bf16(sum, a, b); }
};

// sum[r][v] += a[r][k] * b[k][v] over k.
template <class P, int kV>
HWY_INLINE void multiply(VF (&sum)[kRows][kV], const typename P::Element* HWY_RESTRICT a, int64_t a_stride,
                         const typename P::Element* HWY_RESTRICT b, int depth) {
  const typename P::Element* a0 = a;
  const typename P::Element* a1 = a + 3 * a_stride;
  for (int k = 0; k < depth; ++k) {
    decltype(P::load(b)) bv[kV];
    ROPEWALK_UNROLL
    for (int v = 0; v < kV; ++v) bv[v] = P::load(b + v * kLanes);
    ROPEWALK_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const auto av = P::broadcast(r < 3 ? a0 + r * a_stride : a1 + (r - 3) * a_stride);
      ROPEWALK_UNROLL
      for (int v = 0; v < kV; ++v) sum[r][v] = P::step(sum[r][v], av, bv[v]);
    }
    ++a0;
    ++a1;
    b += kPanel;
  }
}

template <int kV>
HWY_INLINE void clear(VF (&sum)[kRows][kV]) {
  ROPEWALK_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ROPEWALK_UNROLL
    for (int v = 0; v < kV; ++v) sum[r][v] = hn::Zero(DF());
  }
}

// ---- the softmax

// 2^x for x <= 9, and 0 for x <= -125 (and NaN): the weight of a key 2^125 times lighter than the heaviest. x = n + f with n
// the nearest integer, |f| <= 1/2, and a minimax polynomial for 2^f: of degree 5 (relative error below 1.7e-7), or 3 (7.5e-5)
// where the result is rounded to bf16 (2e-3).
template <int kDegree = 5>
HWY_INLINE VF weight_of(VF x) {
  static_assert(kDegree == 3 || kDegree == 5);
  const DF df;
  const DI di;
  const VF shift = hn::Set(df, 12582912.0F);  // 1.5 * 2^23: after the sum the low bits of the mantissa are n
  const VF u = hn::Add(x, shift);
  const VF f = hn::Sub(x, hn::Sub(u, shift));
  VF p;
  if constexpr (kDegree == 5) {
    p = hn::Set(df, 0.0013276472F);
    p = hn::MulAdd(p, f, hn::Set(df, 0.00967554133F));
    p = hn::MulAdd(p, f, hn::Set(df, 0.0555071327F));
    p = hn::MulAdd(p, f, hn::Set(df, 0.240221197F));
    p = hn::MulAdd(p, f, hn::Set(df, 0.693146967F));
    p = hn::MulAdd(p, f, hn::Set(df, 1.00000007F));
  } else {
    p = hn::Set(df, 0.0551716691F);
    p = hn::MulAdd(p, f, hn::Set(df, 0.242611122F));
    p = hn::MulAdd(p, f, hn::Set(df, 0.693260985F));
    p = hn::MulAdd(p, f, hn::Set(df, 0.999928074F));
  }
  const auto scaled = hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, u)));
  return hn::IfThenElseZero(hn::Gt(x, hn::Set(df, -125.0F)), hn::BitCast(df, scaled));
}

// 2^d for an integer d <= 0; 0 below the normal range.
HWY_INLINE float power_of_two(float d) {
  if (!(d > -126.0F)) return 0.0F;
  const auto bits = static_cast<uint32_t>(127 + static_cast<int>(d)) << 23;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

HWY_INLINE void scale_weights(float* weights, int count, float factor) {
  for (int i = 0; i < count; ++i) weights[i] *= factor;
}
HWY_INLINE void scale_weights(uint32_t* weights, int count, float factor) {
  for (int i = 0; i < count; ++i) {  // by a power of two: the upper half of the product is the product
    uint32_t half[2] = {weights[i] << 16, weights[i] & 0xFFFF0000U};
    for (uint32_t& bits : half) {
      float value;
      std::memcpy(&value, &bits, sizeof(value));
      value *= factor;
      std::memcpy(&bits, &value, sizeof(value));
    }
    weights[i] = half[0] >> 16 | (half[1] & 0xFFFF0000U);
  }
}

// Raises M where one of the `width` new scores t of a row exceeds M + 8, and rescales what was formed with the old M: output,
// sums, and the weights of the columns [from, to) of this tile. Seldom runs: about once a row.
template <class P>
HWY_NOINLINE void raise_row(const RowBlock& block, int row, const float* t, int width, int from, int to) {
  float top = kNoMaximum;
  for (int i = 0; i < width; ++i) top = std::max(top, t[i]);
  const float old = block.maximum[row];
  if (!(top > old + 8.0F)) return;
  float* sums = block.sums + int64_t{row} * kMaxLanes;
  // A score beyond the range of f32: there is no right answer left to give.
  if (top > std::numeric_limits<float>::max()) sums[0] = std::numeric_limits<float>::quiet_NaN();
  const float now = std::ceil(std::min(top, std::numeric_limits<float>::max()));
  block.maximum[row] = now;
  const float factor = old == kNoMaximum ? 0.0F : power_of_two(old - now);
  for (int i = 0; i < kMaxLanes; ++i) sums[i] *= factor;
  float* out = block.out + row * block.out_stride;
  for (int64_t i = 0; i < block.out_stride; ++i) out[i] *= factor;
  auto* weights = static_cast<typename P::Element*>(block.weights) + int64_t{row} * kWeightStride;
  scale_weights(weights + from / P::kPair, (to - from) / P::kPair, factor);
}

template <class P>
HWY_NOINLINE void raise_rows(const RowBlock& block, int row, int rows, const float* t, int width, int from, int to) {
  for (int r = 0; r < rows; ++r) raise_row<P>(block, row + r, t + r * width, width, from, to);
}

// Weights of consecutive columns: stored as elements of the second product's A, and summed as stored (rounded), so that the
// output is an exact convex combination of the values.
template <int kV>
HWY_INLINE void store_weights(F32Product, const VF (&w)[kV], float* to, float* sums) {
  const DF df;
  VF sum = hn::Load(df, sums);
  ROPEWALK_UNROLL
  for (int v = 0; v < kV; ++v) {
    hn::Store(w[v], df, to + v * kLanes);
    sum = hn::Add(sum, w[v]);
  }
  hn::Store(sum, df, sums);
}
template <int kV>
HWY_INLINE void store_weights(Bf16Product, const VF (&w)[kV], uint32_t* to, float* sums) {
  const DF df;
  const DU du;
  const auto ones = hn::Set(du, 0x3F803F80U);
  VF sum = hn::Load(df, sums);
  ROPEWALK_UNROLL
  for (int v = 0; v < kV; v += 2) {
    const auto pairs = round_to_pairs(w[v], v + 1 < kV ? w[v + 1 < kV ? v + 1 : v] : hn::Zero(df));
    hn::StoreU(pairs, du, to + v * kLanes / 2);
    sum = dot2_bf16(sum, pairs, ones);
  }
  hn::Store(sum, df, sums);
}

// The columns that a register tile of rows sees: their union, and whether a panel lies inside all of them.
struct TileRange {
  int first, last;              // union
  int inner_first, inner_last;  // intersection
};
HWY_INLINE TileRange range_of(const RowBlock& block, int row, int rows = kRows) {
  TileRange range{kKeyTile, 0, 0, kKeyTile};
  for (int r = row; r < row + rows; ++r) {
    if (block.first[r] < block.last[r]) {
      range.first = std::min(range.first, block.first[r]);
      range.last = std::max(range.last, block.last[r]);
    }
    range.inner_first = std::max(range.inner_first, block.first[r]);
    range.inner_last = std::min(range.inner_last, block.last[r]);
  }
  return range;
}

// q.k of kR rows and kV vectors of columns from col0, as sums (the columns behind them, up to `end`, are done): scaled, hidden
// where a row does not see them, and turned into weights.
template <class P, int kR, int kV, bool kMasked, bool kBias>
HWY_INLINE void weigh(VF (&t)[kR][kV], const RowBlock& block, int row, int col0, int end, float c) {
  const DF df;
  const DI di;
  const VF scale = hn::Set(df, c);
  auto within = hn::Le(scale, scale);
  ROPEWALK_UNROLL
  for (int r = 0; r < kR; ++r) {
    ROPEWALK_UNROLL
    for (int v = 0; v < kV; ++v) {
      if constexpr (kBias) {
        t[r][v] = hn::MulAdd(t[r][v], scale, hn::LoadU(df, block.bias[row + r] + col0 + v * kLanes));
      } else {
        t[r][v] = hn::Mul(t[r][v], scale);
      }
      if constexpr (kMasked) {
        const auto column = hn::Iota(di, col0 + v * kLanes);
        const auto hidden =
            hn::Or(hn::Lt(column, hn::Set(di, block.first[row + r])), hn::Gt(column, hn::Set(di, block.last[row + r] - 1)));
        t[r][v] = hn::IfThenElse(hn::RebindMask(df, hidden), hn::Set(df, -std::numeric_limits<float>::infinity()), t[r][v]);
      }
    }
    VF top = t[r][0];
    ROPEWALK_UNROLL
    for (int v = 1; v < kV; ++v) top = hn::Max(top, t[r][v]);
    within = hn::And(within, hn::Le(top, hn::Set(df, block.maximum[row + r] + 8.0F)));
  }
  if (HWY_UNLIKELY(!hn::AllTrue(df, within))) {
    HWY_ALIGN float spilled[kR * kV * kLanes];
    ROPEWALK_UNROLL
    for (int r = 0; r < kR; ++r) {
      ROPEWALK_UNROLL
      for (int v = 0; v < kV; ++v) hn::Store(t[r][v], df, spilled + (r * kV + v) * kLanes);
    }
    raise_rows<P>(block, row, kR, spilled, kV * kLanes, col0 + kV * kLanes, end);
  }
  auto* weights = static_cast<typename P::Element*>(block.weights) + int64_t{row} * kWeightStride + col0 / P::kPair;
  ROPEWALK_UNROLL
  for (int r = 0; r < kR; ++r) {
    const VF m = hn::Set(df, block.maximum[row + r]);
    VF w[kV];
    ROPEWALK_UNROLL
    for (int v = 0; v < kV; ++v) w[v] = weight_of<P::kWeightDegree>(hn::Sub(t[r][v], m));
    store_weights<kV>(P(), w, weights + r * kWeightStride, block.sums + int64_t{row + r} * kMaxLanes);
  }
}

// kRows rows x kV vectors of columns from col0: scores, and at once their weights.
template <class P, int kV, bool kMasked, bool kBias>
HWY_NOINLINE void score_tile(const RowBlock& block, int row, const typename P::Element* panel, int col0, int end, float c) {
  VF t[kRows][kV];
  clear(t);
  multiply<P, kV>(t, static_cast<const typename P::Element*>(block.q) + row * block.q_stride, block.q_stride, panel,
                  block.depth);
  weigh<P, kRows, kV, kMasked, kBias>(t, block, row, col0, end, c);
}

template <class P, bool kMasked, bool kBias>
HWY_INLINE void score_some(int vecs, const RowBlock& block, int row, const typename P::Element* panel, int col0, int end,
                           float c) {
  if constexpr (kVecs == 4) {
    if (vecs == 3) return score_tile<P, 3, kMasked, kBias>(block, row, panel, col0, end, c);
    if (vecs == 4) return score_tile<P, 4, kMasked, kBias>(block, row, panel, col0, end, c);
  }
  if (vecs == 2) return score_tile<P, 2, kMasked, kBias>(block, row, panel, col0, end, c);
  return score_tile<P, 1, kMasked, kBias>(block, row, panel, col0, end, c);
}

template <class P, bool kBias>
void score_panels(const RowBlock& block, const void* keys, float c) {
  const auto* panels = static_cast<const typename P::Element*>(keys);
  int first = kKeyTile;
  int last = 0;
  for (int row = 0; row < block.rows; row += kRows) {
    const TileRange range = range_of(block, row);
    first = std::min(first, range.first);
    last = std::max(last, range.last);
  }
  // The panel is the outer loop: it stays in the first-level cache while the rows stream by. From the last keys to the first,
  // as tiles are: a bias that falls with the distance then raises M once.
  for (int col0 = (last - 1) / kPanel * kPanel; col0 + kPanel > first; col0 -= kPanel) {
    const auto* panel = panels + int64_t{col0} * block.depth;
    for (int row = 0; row < block.rows; row += kRows) {
      const TileRange range = range_of(block, row);
      if (range.last <= col0 || range.first >= col0 + kPanel) continue;
      const int end = (range.last + kPanel - 1) / kPanel * kPanel;
      const int vecs = std::min(kVecs, (range.last - col0 + kLanes - 1) / kLanes);
      if (range.inner_first <= col0 && range.inner_last >= col0 + vecs * kLanes) {
        score_some<P, false, kBias>(vecs, block, row, panel, col0, end, c);
      } else {
        score_some<P, true, kBias>(vecs, block, row, panel, col0, end, c);
      }
    }
  }
}

template <class P>
void score_weights(const RowBlock& block, const void* keys, float c) {
  block.bias == nullptr ? score_panels<P, false>(block, keys, c) : score_panels<P, true>(block, keys, c);
}

// ---- the general way: scores in memory

template <class P>
HWY_NOINLINE void score_plain(const RowBlock& block, int row, const typename P::Element* panel, float c, float* scores,
                              int64_t stride) {
  const DF df;
  VF t[kRows][kVecs];
  clear(t);
  multiply<P, kVecs>(t, static_cast<const typename P::Element*>(block.q) + row * block.q_stride, block.q_stride, panel,
                     block.depth);
  const VF scale = hn::Set(df, c);
  ROPEWALK_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ROPEWALK_UNROLL
    for (int v = 0; v < kVecs; ++v) hn::Store(hn::Mul(t[r][v], scale), df, scores + r * stride + v * kLanes);
  }
}

template <class P>
void scores(const RowBlock& block, const void* keys, int cols, float c, float* to, int64_t stride) {
  for (int col0 = 0; col0 < cols; col0 += kPanel) {
    const auto* panel = static_cast<const typename P::Element*>(keys) + int64_t{col0} * block.depth;
    for (int row = 0; row < block.rows; row += kRows) {
      score_plain<P>(block, row, panel, c, to + row * stride + col0, stride);
    }
  }
}

template <class P>
void weights(const RowBlock& block, float* scores, int cols, bool keep_weights) {
  const DF df;
  const VF log2e = hn::Set(df, 1.44269504F);
  constexpr int kStep = 2 * kLanes;
  for (int row = 0; row < block.rows; ++row) {
    float* t = scores + int64_t{row} * kWeightStride;
    std::fill(t + cols, t + kKeyTile, -std::numeric_limits<float>::infinity());
    VF top = hn::Set(df, kNoMaximum);
    auto ordered = hn::Le(log2e, log2e);
    for (int i = 0; i < kKeyTile; i += kLanes) {
      const VF value = hn::Mul(hn::Load(df, t + i), log2e);
      ordered = hn::And(ordered, hn::Lt(value, hn::Set(df, std::numeric_limits<float>::infinity())));
      top = hn::Max(top, value);
      hn::Store(value, df, t + i);
    }
    float* sums = block.sums + int64_t{row} * kMaxLanes;
    if (!hn::AllTrue(df, ordered)) sums[0] = std::numeric_limits<float>::quiet_NaN();
    if (!hn::AllTrue(df, hn::Le(top, hn::Set(df, block.maximum[row] + 8.0F)))) raise_row<P>(block, row, t, kKeyTile, 0, 0);
    const VF m = hn::Set(df, block.maximum[row]);
    auto* to = static_cast<typename P::Element*>(block.weights) + int64_t{row} * kWeightStride;
    for (int i = 0; i < kKeyTile; i += kStep) {
      const VF w[2] = {weight_of<P::kWeightDegree>(hn::Sub(hn::Load(df, t + i), m)),
                       weight_of<P::kWeightDegree>(hn::Sub(hn::Load(df, t + i + kLanes), m))};
      store_weights<2>(P(), w, to + i / P::kPair, sums);
    }
    if (!keep_weights) continue;
    if constexpr (P::kPair == 1) {
      std::memcpy(t, to, kKeyTile * sizeof(float));
    } else {
      for (int i = 0; i < kKeyTile; ++i) {  // the rounded ones
        const uint32_t bits = (i & 1) != 0 ? to[i / 2] & 0xFFFF0000U : to[i / 2] << 16;
        std::memcpy(t + i, &bits, sizeof(bits));
      }
    }
  }
}

// ---- the second product

template <class P, int kV>
HWY_NOINLINE void accumulate_tile(const RowBlock& block, int row, const typename P::Element* panel, int64_t dim0, int begin,
                                  int end) {
  const DF df;
  VF sum[kRows][kV];
  float* out = block.out + row * block.out_stride + dim0;
  ROPEWALK_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ROPEWALK_UNROLL
    for (int v = 0; v < kV; ++v) sum[r][v] = hn::Load(df, out + r * block.out_stride + v * kLanes);
  }
  const auto* weights = static_cast<const typename P::Element*>(block.weights) + int64_t{row} * kWeightStride + begin;
  multiply<P, kV>(sum, weights, kWeightStride, panel + int64_t{begin} * kPanel, end - begin);
  ROPEWALK_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ROPEWALK_UNROLL
    for (int v = 0; v < kV; ++v) hn::Store(sum[r][v], df, out + r * block.out_stride + v * kLanes);
  }
}

template <class P>
void accumulate(const RowBlock& block, const void* values, int dim) {
  const auto* panel = static_cast<const typename P::Element*>(values);
  for (int dim0 = 0; dim0 < dim; dim0 += kPanel, panel += kKeyTile / P::kPair * kPanel) {
    const int vecs = std::min(kVecs, (dim - dim0 + kLanes - 1) / kLanes);
    for (int row = 0; row < block.rows; row += kRows) {
      const TileRange range = range_of(block, row);
      if (range.first >= range.last) continue;
      const int begin = range.first / P::kPair;
      const int end = (range.last + P::kPair - 1) / P::kPair;
      if constexpr (kVecs == 4) {
        if (vecs == 4) {
          accumulate_tile<P, 4>(block, row, panel, dim0, begin, end);
          continue;
        }
        if (vecs == 3) {
          accumulate_tile<P, 3>(block, row, panel, dim0, begin, end);
          continue;
        }
      }
      if (vecs == 2) {
        accumulate_tile<P, 2>(block, row, panel, dim0, begin, end);
      } else {
        accumulate_tile<P, 1>(block, row, panel, dim0, begin, end);
      }
    }
  }
}

}  // namespace
}  // namespace ROPEWALK_VARIANT
}  // namespace HWY_NAMESPACE
}  // namespace ropewalk
ROPEWALK_AFTER_TARGET

#endif  // per-target guard
