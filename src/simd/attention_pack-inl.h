// Packing: strided rows of f32, f16 or bf16 into the layouts of attention_kernels.h, rotated on the way.
#if defined(ROPEWALK_SIMD_ATTENTION_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPEWALK_SIMD_ATTENTION_PACK_INL_H_
#undef ROPEWALK_SIMD_ATTENTION_PACK_INL_H_
#else
#define ROPEWALK_SIMD_ATTENTION_PACK_INL_H_
#endif

#include "simd/attention_products-inl.h"

ROPEWALK_BEFORE_TARGET
namespace ropewalk {
namespace HWY_NAMESPACE {
namespace ROPEWALK_VARIANT {
namespace {

constexpr int kRowBuffer = kMaxHeadDim + kMaxPanel;  // a row with room for whole vectors

// A row as f32, followed by zeros to a whole panel. True when it holds NaN or infinity.
HWY_INLINE bool load_row(const RowSource& source, int row, float* HWY_RESTRICT to) {
  const DF df;
  const VF zero = hn::Zero(df);
  VF probe = zero;  // x * 0 is 0 for a finite x, else NaN
  const int dim = source.dim;
  int i = 0;
  if (source.dtype == DType::kF32) {
    const float* from = static_cast<const float*>(source.data) + row * source.stride;
    for (; i + kLanes <= dim; i += kLanes) {
      const VF x = hn::LoadU(df, from + i);
      probe = hn::MulAdd(x, zero, probe);
      hn::Store(x, df, to + i);
    }
    for (; i < dim; ++i) to[i] = from[i];
  } else if (source.dtype == DType::kF16) {
    const hn::Rebind<hwy::float16_t, DF> dh;
    const f16_t* from = static_cast<const f16_t*>(source.data) + row * source.stride;
    for (; i + kLanes <= dim; i += kLanes) {
      const VF x = hn::PromoteTo(df, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from + i)));
      probe = hn::MulAdd(x, zero, probe);
      hn::Store(x, df, to + i);
    }
    for (; i < dim; ++i) to[i] = ropewalk::to_f32(from[i]);
  } else {
    const hn::Rebind<hwy::bfloat16_t, DF> dh;
    const bf16_t* from = static_cast<const bf16_t*>(source.data) + row * source.stride;
    for (; i + kLanes <= dim; i += kLanes) {
      const VF x = hn::PromoteTo(df, hn::LoadU(dh, reinterpret_cast<const hwy::bfloat16_t*>(from + i)));
      probe = hn::MulAdd(x, zero, probe);
      hn::Store(x, df, to + i);
    }
    for (; i < dim; ++i) to[i] = ropewalk::to_f32(from[i]);
  }
  const int tail = dim / kLanes * kLanes;
  for (int end = (dim + kPanel - 1) / kPanel * kPanel; i < end; ++i) to[i] = 0;
  if (tail < dim) probe = hn::MulAdd(hn::Load(df, to + tail), zero, probe);
  return !hn::AllTrue(df, hn::Eq(probe, zero));
}

// x rotated, planes in halves whatever the pairing: a dot product is free in the order of its dims.
HWY_INLINE void rotate_row(const RowRotation& rotation, int row, int dim, const float* HWY_RESTRICT x, float* HWY_RESTRICT y) {
  const DF df;
  const int planes = rotation.planes;
  const float* cos = rotation.cos + int64_t{row} * planes;
  const float* sin = rotation.sin + int64_t{row} * planes;
  const float* in = x + rotation.begin;
  float* low = y + rotation.begin;
  float* high = low + planes;
  std::copy(x, in, y);
  int i = 0;
  for (; i + kLanes <= planes; i += kLanes) {
    VF x0;
    VF x1;
    if (rotation.interleaved) {
      hn::LoadInterleaved2(df, in + 2 * i, x0, x1);
    } else {
      x0 = hn::LoadU(df, in + i);
      x1 = hn::LoadU(df, in + planes + i);
    }
    const VF c = hn::LoadU(df, cos + i);
    const VF s = hn::LoadU(df, sin + i);
    hn::StoreU(hn::NegMulAdd(x1, s, hn::Mul(x0, c)), df, low + i);
    hn::StoreU(hn::MulAdd(x0, s, hn::Mul(x1, c)), df, high + i);
  }
  for (; i < planes; ++i) {
    const float x0 = rotation.interleaved ? in[2 * i] : in[i];
    const float x1 = rotation.interleaved ? in[2 * i + 1] : in[planes + i];
    low[i] = x0 * cos[i] - x1 * sin[i];
    high[i] = x1 * cos[i] + x0 * sin[i];
  }
  const int end = (dim + kPanel - 1) / kPanel * kPanel;
  std::copy(in + 2 * planes, x + end, high + planes);
}

// The order of dims that rotate_row gives, without a rotation.
HWY_INLINE void split_planes(const RowRotation& rotation, const float* HWY_RESTRICT x, float* HWY_RESTRICT y) {
  const int planes = rotation.planes;
  std::copy(x, x + kRowBuffer, y);
  for (int i = 0; i < planes; ++i) {
    y[rotation.begin + i] = x[rotation.begin + 2 * i];
    y[rotation.begin + planes + i] = x[rotation.begin + 2 * i + 1];
  }
}

// Bits of x rounded to bf16 (nearest, ties to even) in the upper half.
HWY_INLINE hn::Vec<DU> round_bits(VF x) {
  const DU du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
  return hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFU)));
}

// A row of floats, padded to whole vectors, as elements of the first product.
HWY_INLINE void to_elements(F32Product, const float* HWY_RESTRICT x, int depth, float factor, float* HWY_RESTRICT to) {
  for (int i = 0; i < depth; ++i) to[i] = x[i] * factor;
}
HWY_INLINE void to_elements(Bf16Product, const float* HWY_RESTRICT x, int depth, float factor, uint32_t* HWY_RESTRICT to) {
  const DF df;
  const DU du;
  const VF times = hn::Set(df, factor);
  HWY_ALIGN uint32_t last[kLanes];
  for (int i = 0; i < depth; i += kLanes) {
    VF even;
    VF odd;
    hn::LoadInterleaved2(df, x + 2 * i, even, odd);
    const auto low = hn::ShiftRight<16>(round_bits(hn::Mul(even, times)));
    const auto pairs = hn::Or(low, hn::And(round_bits(hn::Mul(odd, times)), hn::Set(du, 0xFFFF0000U)));
    if (i + kLanes <= depth) {
      hn::StoreU(pairs, du, to + i);
    } else {
      hn::Store(pairs, du, last);
      std::copy(last, last + (depth - i), to + i);
    }
  }
}

// 4 rows of elements, `stride` apart, into columns: to[k * kPanel + 0..3].
HWY_INLINE void transpose4(const uint32_t* from, int stride, int depth, uint32_t* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int k = 0; k < depth; ++k) {
    for (int r = 0; r < 4; ++r) to[k * kPanel + r] = from[r * stride + k];
  }
#else
  const hn::CappedTag<uint32_t, 4> d;
  const hn::CappedTag<uint64_t, 2> d64;
  for (int k = 0; k < depth; k += 4) {
    const auto r0 = hn::Load(d, from + k);
    const auto r1 = hn::Load(d, from + stride + k);
    const auto r2 = hn::Load(d, from + 2 * stride + k);
    const auto r3 = hn::Load(d, from + 3 * stride + k);
    const auto a = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
    const auto b = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
    uint32_t* column = to + int64_t{k} * kPanel;
    hn::Store(hn::BitCast(d, hn::InterleaveLower(d64, a, b)), d, column);
    if (k + 1 < depth) hn::Store(hn::BitCast(d, hn::InterleaveUpper(d64, a, b)), d, column + kPanel);
    if (k + 2 >= depth) continue;
    const auto e = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
    const auto f = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
    hn::Store(hn::BitCast(d, hn::InterleaveLower(d64, e, f)), d, column + 2 * kPanel);
    if (k + 3 < depth) hn::Store(hn::BitCast(d, hn::InterleaveUpper(d64, e, f)), d, column + 3 * kPanel);
  }
#endif
}

// Elements of a row of `dim` values, filled up to a whole depth step.
template <class P>
constexpr int depth_of(int dim) {
  constexpr int kStep = P::kPair * P::kDepthStep;
  static_assert(kPanel % kStep == 0 || kStep <= 2);  // load_row fills up to a whole panel
  return (dim + kStep - 1) / kStep * P::kDepthStep;
}

// A row ready for the first product: loaded, rotated, a bad one cleared.
template <class P>
HWY_INLINE bool prepare_row(const RowSource& source, const RowRotation& rotation, int row, float factor,
                            typename P::Element* to) {
  HWY_ALIGN float x[kRowBuffer];
  HWY_ALIGN float y[kRowBuffer];
  const bool bad = load_row(source, row, x);
  if (bad) std::fill(x, x + kRowBuffer, 0.0F);
  const float* ready = x;
  if (rotation.cos != nullptr) {
    rotate_row(rotation, row, source.dim, x, y);
    ready = y;
  } else if (rotation.interleaved) {
    split_planes(rotation, x, y);
    ready = y;
  }
  to_elements(P(), ready, depth_of<P>(source.dim), factor, to);
  return bad;
}

template <class P>
bool pack_keys(const RowSource& source, const RowRotation& rotation, void* out, uint8_t* bad) {
  using Element = typename P::Element;
  static_assert(kPanel % 4 == 0);
  constexpr int kStride = kMaxHeadDim + 16;
  HWY_ALIGN Element rows[4 * kStride];
  const int depth = depth_of<P>(source.dim);
  bool any = false;
  for (int row = 0; row < (source.rows + kPanel - 1) / kPanel * kPanel; row += 4) {
    Element* column = static_cast<Element*>(out) + int64_t{row / kPanel} * kPanel * depth + row % kPanel;
    if (row >= source.rows) {
      for (int k = 0; k < depth; ++k) std::fill(column + int64_t{k} * kPanel, column + int64_t{k} * kPanel + 4, Element{0});
      continue;
    }
    for (int r = 0; r < 4; ++r) {
      if (row + r < source.rows) {
        const bool is_bad = prepare_row<P>(source, rotation, row + r, 1.0F, rows + r * kStride);
        bad[row + r] = is_bad ? 1 : bad[row + r];
        any = any || is_bad;
      } else {
        std::fill(rows + r * kStride, rows + r * kStride + depth, Element{0});
      }
    }
    transpose4(reinterpret_cast<const uint32_t*>(rows), kStride, depth, reinterpret_cast<uint32_t*>(column));
  }
  return any;
}

template <class P>
bool pack_queries(const RowSource& source, const RowRotation& rotation, const float* factor, void* out, int64_t out_stride,
                  uint8_t* bad) {
  bool any = false;
  for (int row = 0; row < source.rows; ++row) {
    auto* to = static_cast<typename P::Element*>(out) + row * out_stride;
    const bool is_bad = prepare_row<P>(source, rotation, row, factor == nullptr ? 1.0F : factor[row], to);
    bad[row] = is_bad ? 1 : bad[row];
    any = any || is_bad;
  }
  return any;
}

HWY_INLINE void store_values(F32Product, const float* x, const float*, float* to) {
  const DF df;
  for (int i = 0; i < kPanel; i += kLanes) hn::Store(hn::Load(df, x + i), df, to + i);
}
HWY_INLINE void store_values(Bf16Product, const float* x, const float* y, uint32_t* to) {
  const DF df;
  const DU du;
  for (int i = 0; i < kPanel; i += kLanes) {
    const auto low = hn::ShiftRight<16>(round_bits(hn::Load(df, x + i)));
    hn::Store(hn::Or(low, hn::And(round_bits(hn::Load(df, y + i)), hn::Set(du, 0xFFFF0000U))), du, to + i);
  }
}

template <class P>
bool pack_values(const RowSource& source, void* out, uint8_t* bad) {
  using Element = typename P::Element;
  HWY_ALIGN float x[2][kRowBuffer];
  bool any = false;
  const int panels = (source.dim + kPanel - 1) / kPanel;
  constexpr int64_t kPanelSize = int64_t{kKeyTile} / P::kPair * kPanel;
  for (int row = 0; row < depth_of<P>(source.rows) * P::kPair; row += P::kPair) {
    for (int r = 0; r < P::kPair; ++r) {
      const bool is_there = row + r < source.rows;
      const bool is_bad = is_there && load_row(source, row + r, x[r]);
      if (!is_there) std::fill(x[r], x[r] + kRowBuffer, 0.0F);
      if (is_bad) {
        bad[row + r] = 1;
        for (int i = 0; i < source.dim; ++i) x[r][i] = std::isfinite(x[r][i]) ? x[r][i] : 0.0F;
      }
      any = any || is_bad;
    }
    for (int panel = 0; panel < panels; ++panel) {
      store_values(P(), x[0] + panel * kPanel, x[1] + panel * kPanel,
                   static_cast<Element*>(out) + panel * kPanelSize + int64_t{row / P::kPair} * kPanel);
    }
  }
  return any;
}

void rows_to_f32(const RowSource& source, float* out, int64_t out_stride) {
  HWY_ALIGN float x[kRowBuffer];
  for (int row = 0; row < source.rows; ++row) {
    load_row(source, row, x);
    std::copy(x, x + source.dim, out + row * out_stride);
  }
}

// tanh(x) = (1 - w) / (1 + w), w = exp(-2 |x|); below 1/4, where that cancels, its series (next term 9e-9 of the result).
HWY_INLINE VF tanh_of(VF x) {
  const DF df;
  const VF size = hn::Abs(x);
  const VF one = hn::Set(df, 1.0F);
  const VF w = weight_of(hn::Mul(size, hn::Set(df, -2.88539008F)));
  const VF far = hn::Div(hn::Sub(one, w), hn::Add(one, w));
  const VF z = hn::Mul(size, size);
  VF p = hn::Set(df, 0.0218694885F);
  p = hn::MulAdd(p, z, hn::Set(df, -0.0539682540F));
  p = hn::MulAdd(p, z, hn::Set(df, 0.133333333F));
  p = hn::MulAdd(p, z, hn::Set(df, -0.333333333F));
  p = hn::MulAdd(p, z, one);
  const VF near = hn::Mul(p, size);
  return hn::CopySign(hn::IfThenElse(hn::Lt(size, hn::Set(df, 0.25F)), near, far), x);
}

void soft_cap(float* scores, int64_t count, float cap) {
  const DF df;
  const VF up = hn::Set(df, cap);
  const VF down = hn::Set(df, 1.0F / cap);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(hn::Mul(up, tanh_of(hn::Mul(hn::LoadU(df, scores + i), down))), df, scores + i);
  }
  for (; i < count; ++i) scores[i] = cap * std::tanh(scores[i] / cap);
}

template <class P>
constexpr AttentionKernels make_kernels(const char* name) {
  return {name,       kRows,         kPanel,       P::kPair,       P::kDepthStep,   score_weights<P>, scores<P>,
          weights<P>, accumulate<P>, pack_keys<P>, pack_values<P>, pack_queries<P>, rows_to_f32,      soft_cap};
}

}  // namespace
}  // namespace ROPEWALK_VARIANT
}  // namespace HWY_NAMESPACE
}  // namespace ropewalk
ROPEWALK_AFTER_TARGET

#endif  // per-target guard
