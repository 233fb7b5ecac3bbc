// attention_products-inl.h once more, compiled for Highway's AVX3 (AVX-512 F, BW, DQ, VL) plus AVX512_BF16 and AMX; called
// after a check of the processor. Two sets:
//
//   vdpbf16ps   the portable code with the processor's dot product and rounding (vcvtne2ps2bf16)
//   AMX         the same packing and softmax, but both products in tile registers: 16 rows by 16 columns by 32 deep at once.
//   The
//               packed panels need no change: 16 pairs of a panel, 16 columns wide, are what tdpbf16ps takes as its right side.
#include "simd/attention_native.h"

#include <hwy/detect_targets.h>

#include "simd/targets.h"

#if HWY_ARCH_X86 && HWY_ARCH_X86_64 && (HWY_TARGETS & HWY_AVX3) && (HWY_COMPILER_GCC || HWY_COMPILER_CLANG)
#define ROPEWALK_HAS_NATIVE_BF16 1
#else
#define ROPEWALK_HAS_NATIVE_BF16 0
#endif

#if ROPEWALK_HAS_NATIVE_BF16

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET
#define HWY_TARGET HWY_AVX3
#include <hwy/highway.h>

#define ROPEWALK_BEFORE_TARGET HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR_AVX3 ",avx512bf16,amx-tile,amx-bf16")
#define ROPEWALK_AFTER_TARGET HWY_POP_ATTRIBUTES
#define ROPEWALK_VARIANT native

ROPEWALK_BEFORE_TARGET
namespace ropewalk {
namespace HWY_NAMESPACE {
namespace ROPEWALK_VARIANT {
namespace {

using Bf16Floats = hwy::HWY_NAMESPACE::CappedTag<float, kMaxLanes>;
using Bf16Pairs = hwy::HWY_NAMESPACE::RebindToUnsigned<Bf16Floats>;

HWY_INLINE hwy::HWY_NAMESPACE::Vec<Bf16Floats> dot2_bf16(hwy::HWY_NAMESPACE::Vec<Bf16Floats> sum,
                                                         hwy::HWY_NAMESPACE::Vec<Bf16Pairs> a,
                                                         hwy::HWY_NAMESPACE::Vec<Bf16Pairs> b) {
  return hwy::HWY_NAMESPACE::Vec<Bf16Floats>{
      _mm512_dpbf16_ps(sum.raw, __builtin_bit_cast(__m512bh, a.raw), __builtin_bit_cast(__m512bh, b.raw))};
}

HWY_INLINE hwy::HWY_NAMESPACE::Vec<Bf16Pairs> round_to_pairs(hwy::HWY_NAMESPACE::Vec<Bf16Floats> low,
                                                             hwy::HWY_NAMESPACE::Vec<Bf16Floats> high) {
  return hwy::HWY_NAMESPACE::Vec<Bf16Pairs>{__builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(high.raw, low.raw))};
}

}  // namespace
}  // namespace ROPEWALK_VARIANT
}  // namespace HWY_NAMESPACE
}  // namespace ropewalk
ROPEWALK_AFTER_TARGET

#include "simd/attention_pack-inl.h"

ROPEWALK_BEFORE_TARGET
namespace ropewalk {
namespace HWY_NAMESPACE {
namespace ROPEWALK_VARIANT {
namespace {

constexpr int kTileRows = 16;      // rows of a tile register
constexpr int kTileElements = 16;  // 4-byte elements of a row of it
constexpr int kPairRows = 2 * kTileRows;
static_assert(kPanel == 4 * kTileElements);

// Sums in tiles 0 to 3 (two by two), left sides in 4 and 5, right sides in 6 and 7, all of full size.
struct alignas(64) TilePalette {
  uint8_t palette = 0;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// The tiles configured for the time of a call. What another library had configured on this thread is put back.
class TileSession {
 public:
  TileSession() {
    _tile_storeconfig(&before_);
    TilePalette palette;
    palette.palette = 1;
    for (int i = 0; i < 8; ++i) {
      palette.row_bytes[i] = 4 * kTileElements;
      palette.rows[i] = kTileRows;
    }
    _tile_loadconfig(&palette);
  }
  ~TileSession() {
    if (before_.palette == 0) {
      _tile_release();
    } else {
      _tile_loadconfig(&before_);
    }
  }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;

 private:
  TilePalette before_;
};

struct AmxProduct : Bf16Product {
  static constexpr int kDepthStep = kTileElements;
};

// The sums of 16 (or, kTwo, 32) rows by 32 columns += a [rows][depth] times b [depth][kPanel]; depth in elements, a multiple of
// 16.
template <bool kTwo>
HWY_INLINE void multiply_tiles(const uint32_t* a, int64_t a_stride, const uint32_t* b, int depth) {
  const int64_t a_bytes = a_stride * 4;
  for (int k = 0; k < depth; k += kTileElements) {
    _tile_loadd(6, b, kPanel * 4);
    _tile_loadd(4, a, a_bytes);
    _tile_loadd(7, b + kTileElements, kPanel * 4);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kTwo) {
      _tile_loadd(5, a + kTileRows * a_stride, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    a += kTileElements;
    b += kTileElements * kPanel;
  }
}

template <bool kTwo>
HWY_INLINE void clear_tiles() {
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kTwo) {
    _tile_zero(2);
    _tile_zero(3);
  }
}

template <bool kTwo>
HWY_INLINE void store_tiles(float* to, int64_t stride) {
  _tile_stored(0, to, stride * 4);
  _tile_stored(1, to + kTileElements, stride * 4);
  if constexpr (kTwo) {
    _tile_stored(2, to + kTileRows * stride, stride * 4);
    _tile_stored(3, to + kTileRows * stride + kTileElements, stride * 4);
  }
}

// The compiler does not know that tile loads read memory: what was stored before must be there.
HWY_INLINE void memory_barrier() { asm volatile("" ::: "memory"); }

// q.k of the rows from `row` and `cols` columns (a multiple of 32) of a panel.
template <bool kTwo>
HWY_NOINLINE void product_scores(const RowBlock& block, int row, const uint32_t* panel, int cols, float* to, int64_t stride) {
  memory_barrier();
  const uint32_t* q = static_cast<const uint32_t*>(block.q) + row * block.q_stride;
  for (int col = 0; col < cols; col += 2 * kTileElements) {
    clear_tiles<kTwo>();
    multiply_tiles<kTwo>(q, block.q_stride, panel + col, block.depth);
    store_tiles<kTwo>(to + col, stride);
  }
}

HWY_INLINE void scores_of(const RowBlock& block, int row, int rows, const uint32_t* panel, int cols, float* to,
                          int64_t stride) {
  if (rows > kTileRows) {
    product_scores<true>(block, row, panel, cols, to, stride);
  } else {
    product_scores<false>(block, row, panel, cols, to, stride);
  }
}

template <int kV, bool kMasked, bool kBias>
HWY_NOINLINE void weigh_tiles(const float* scores, const RowBlock& block, int row, int rows, int col0, int end, float c) {
  constexpr int kR = 4;
  for (int r = 0; r < rows; r += kR) {
    VF t[kR][kV];
    ROPEWALK_UNROLL
    for (int i = 0; i < kR; ++i) {
      ROPEWALK_UNROLL
      for (int v = 0; v < kV; ++v) t[i][v] = hn::Load(DF(), scores + (r + i) * kPanel + v * kLanes);
    }
    weigh<AmxProduct, kR, kV, kMasked, kBias>(t, block, row + r, col0, end, c);
  }
}

template <bool kBias>
void score_tiles(const RowBlock& block, const void* keys, float c) {
  HWY_ALIGN float scores[kPairRows * kPanel];
  const auto* panels = static_cast<const uint32_t*>(keys);
  const TileRange all = range_of(block, 0, block.rows);
  for (int col0 = (all.last - 1) / kPanel * kPanel; col0 + kPanel > all.first; col0 -= kPanel) {
    const uint32_t* panel = panels + int64_t{col0} * block.depth;
    for (int row = 0; row < block.rows; row += kPairRows) {
      const int rows = std::min(kPairRows, block.rows - row);
      const TileRange range = range_of(block, row, rows);
      if (range.last <= col0 || range.first >= col0 + kPanel) continue;
      const int end = (range.last + kPanel - 1) / kPanel * kPanel;
      // Two vectors at a time: the second product takes 32 columns of weights, so those that nobody sees become 0.
      const bool half = range.last <= col0 + 2 * kLanes;
      scores_of(block, row, rows, panel, half ? kPanel / 2 : kPanel, scores, kPanel);
      const bool inside = range.inner_first <= col0 && range.inner_last >= col0 + (half ? kPanel / 2 : kPanel);
      if (half) {
        inside ? weigh_tiles<2, false, kBias>(scores, block, row, rows, col0, end, c)
               : weigh_tiles<2, true, kBias>(scores, block, row, rows, col0, end, c);
      } else {
        inside ? weigh_tiles<4, false, kBias>(scores, block, row, rows, col0, end, c)
               : weigh_tiles<4, true, kBias>(scores, block, row, rows, col0, end, c);
      }
    }
  }
}

void amx_score_weights(const RowBlock& block, const void* keys, float c) {
  const TileSession session;
  block.bias == nullptr ? score_tiles<false>(block, keys, c) : score_tiles<true>(block, keys, c);
}

void amx_scores(const RowBlock& block, const void* keys, int cols, float c, float* to, int64_t stride) {
  const TileSession session;
  const DF df;
  const VF scale = hn::Set(df, c);
  for (int col0 = 0; col0 < cols; col0 += kPanel) {
    const auto* panel = static_cast<const uint32_t*>(keys) + int64_t{col0} * block.depth;
    for (int row = 0; row < block.rows; row += kPairRows) {
      const int rows = std::min(kPairRows, block.rows - row);
      float* scores = to + row * stride + col0;
      scores_of(block, row, rows, panel, kPanel, scores, stride);
      for (int r = 0; r < rows; ++r) {
        float* x = scores + r * stride;
        for (int i = 0; i < kPanel; i += kLanes) hn::Store(hn::Mul(scale, hn::Load(df, x + i)), df, x + i);
      }
    }
  }
}

template <bool kTwo>
HWY_NOINLINE void accumulate_tiles(const RowBlock& block, int row, const uint32_t* panel, int64_t dim0, int begin, int end) {
  memory_barrier();
  float* out = block.out + row * block.out_stride + dim0;
  const int64_t bytes = block.out_stride * 4;
  _tile_loadd(0, out, bytes);
  _tile_loadd(1, out + kTileElements, bytes);
  if constexpr (kTwo) {
    _tile_loadd(2, out + kTileRows * block.out_stride, bytes);
    _tile_loadd(3, out + kTileRows * block.out_stride + kTileElements, bytes);
  }
  const auto* weights = static_cast<const uint32_t*>(block.weights) + int64_t{row} * kWeightStride + begin;
  multiply_tiles<kTwo>(weights, kWeightStride, panel + int64_t{begin} * kPanel, end - begin);
  store_tiles<kTwo>(out, block.out_stride);
}

void amx_accumulate(const RowBlock& block, const void* values, int dim) {
  const TileSession session;
  const auto* panels = static_cast<const uint32_t*>(values);
  for (int64_t dim0 = 0; dim0 < dim; dim0 += 2 * kTileElements) {
    const uint32_t* panel = panels + dim0 / kPanel * (kKeyTile / AmxProduct::kPair * kPanel) + dim0 % kPanel;
    for (int row = 0; row < block.rows; row += kPairRows) {
      const int rows = std::min(kPairRows, block.rows - row);
      const TileRange range = range_of(block, row, rows);
      if (range.first >= range.last) continue;
      const int begin = range.first / (2 * kTileElements) * kTileElements;
      const int end = (range.last + 2 * kTileElements - 1) / (2 * kTileElements) * kTileElements;
      if (rows > kTileRows) {
        accumulate_tiles<true>(block, row, panel, dim0, begin, end);
      } else {
        accumulate_tiles<false>(block, row, panel, dim0, begin, end);
      }
    }
  }
}

constexpr AttentionKernels make_amx_kernels() {
  AttentionKernels kernels = make_kernels<AmxProduct>("bf16 AMX");
  kernels.row_tile = kTileRows;
  kernels.score_weights = amx_score_weights;
  kernels.scores = amx_scores;
  kernels.accumulate = amx_accumulate;
  return kernels;
}

}  // namespace
}  // namespace ROPEWALK_VARIANT
}  // namespace HWY_NAMESPACE
}  // namespace ropewalk
ROPEWALK_AFTER_TARGET

namespace ropewalk {

std::vector<const AttentionKernels*> native_bf16_kernels() {
  namespace native = HWY_NAMESPACE::native;
  static constexpr AttentionKernels kDot = native::make_kernels<native::Bf16Product>("bf16 vdpbf16ps");
  static constexpr AttentionKernels kAmx = native::make_amx_kernels();
  std::vector<const AttentionKernels*> sets;
  if ((hwy::SupportedTargets() & HWY_AVX3) == 0 || !has_bf16_dot()) return sets;
  if (has_amx_bf16()) sets.push_back(&kAmx);
  sets.push_back(&kDot);
  return sets;
}

}  // namespace ropewalk

#else

namespace ropewalk {

std::vector<const AttentionKernels*> native_bf16_kernels() { return {}; }

}  // namespace ropewalk

#endif
