#include "simd/ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/ops.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>

#include "ropewalk/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// The rest of a row, shorter than a vector, through a zero-padded copy.
V load_some(D d, const float* p, size_t count) {
  HWY_ALIGN float padded[HWY_MAX_BYTES / sizeof(float)] = {};
  std::copy(p, p + count, padded);
  return hn::Load(d, padded);
}
void store_some(V v, D d, float* p, size_t count) {
  HWY_ALIGN float padded[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, padded);
  std::copy(padded, padded + count, p);
}

float reduce(D d, V v) { return hn::GetLane(hn::SumOfLanes(d, v)); }

float dot(const float* a, const float* b, int64_t n) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
    s1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), s1);
    s2 = hn::MulAdd(hn::LoadU(d, a + i + 2 * lanes), hn::LoadU(d, b + i + 2 * lanes), s2);
    s3 = hn::MulAdd(hn::LoadU(d, a + i + 3 * lanes), hn::LoadU(d, b + i + 3 * lanes), s3);
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
  if (i < n) {
    const auto rest = static_cast<size_t>(n - i);
    s1 = hn::MulAdd(load_some(d, a + i, rest), load_some(d, b + i, rest), s1);
  }
  return reduce(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

float sum(const float* x, int64_t n) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V partial = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) partial = hn::Add(partial, hn::LoadU(d, x + i));
  float total = reduce(d, partial);
  for (; i < n; ++i) total += x[i];
  return total;
}

void dot_columns(const float* a, const float* b, int64_t columns, int64_t n, float* out, int64_t stride) {
  int64_t c = 0;
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; c + 4 <= columns; c += 4) {
    const float *b0 = b + c * n, *b1 = b0 + n, *b2 = b1 + n, *b3 = b2 + n;
    V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      const V x = hn::LoadU(d, a + i);
      s0 = hn::MulAdd(x, hn::LoadU(d, b0 + i), s0);
      s1 = hn::MulAdd(x, hn::LoadU(d, b1 + i), s1);
      s2 = hn::MulAdd(x, hn::LoadU(d, b2 + i), s2);
      s3 = hn::MulAdd(x, hn::LoadU(d, b3 + i), s3);
    }
    if (i < n) {
      const auto rest = static_cast<size_t>(n - i);
      const V x = load_some(d, a + i, rest);
      s0 = hn::MulAdd(x, load_some(d, b0 + i, rest), s0);
      s1 = hn::MulAdd(x, load_some(d, b1 + i, rest), s1);
      s2 = hn::MulAdd(x, load_some(d, b2 + i, rest), s2);
      s3 = hn::MulAdd(x, load_some(d, b3 + i, rest), s3);
    }
    out[c * stride] = reduce(d, s0);
    out[(c + 1) * stride] = reduce(d, s1);
    out[(c + 2) * stride] = reduce(d, s2);
    out[(c + 3) * stride] = reduce(d, s3);
  }
  for (; c < columns; ++c) out[c * stride] = dot(a, b + c * n, n);
}

void rms_norm(const float* x, const float* w, float plus, float epsilon, int64_t n, float* out) {
  const float mean = dot(x, x, n) / static_cast<float>(n);
  const float inverse = 1.0F / std::sqrt(mean + epsilon);
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V factor = hn::Set(d, inverse), extra = hn::Set(d, plus);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + i), factor), hn::Add(hn::LoadU(d, w + i), extra)), d, out + i);
  }
  for (; i < n; ++i) out[i] = x[i] * inverse * (w[i] + plus);
}

struct Silu {
  V operator()(D d, V z) const { return hn::Div(z, hn::Add(hn::Set(d, 1.0F), hn::Exp(d, clamp(d, hn::Neg(z))))); }
  // e^88 is finite, and z / (1 + e^88) is 0 to any precision that matters.
  static V clamp(D d, V z) { return hn::Min(z, hn::Set(d, 88.0F)); }
};

struct GeluTanh {
  // 0.5 (1 + tanh u) = 1 / (1 + e^-2u): one exp, and no cancellation for very negative z.
  V operator()(D d, V z) const {
    const V cube = hn::Mul(hn::Mul(z, z), z);
    const V u = hn::MulAdd(hn::Set(d, 0.044715F), cube, z);
    const V minus_2u = hn::Mul(hn::Set(d, -1.5957691216057308F), u);  // 2 sqrt(2/pi)
    return hn::Div(z, hn::Add(hn::Set(d, 1.0F), hn::Exp(d, Silu::clamp(d, minus_2u))));
  }
};

template <class Function>
HWY_INLINE void gated(Function f, const float* gate, const float* up, int64_t n, float* out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(f(d, hn::LoadU(d, gate + i)), hn::LoadU(d, up + i)), d, out + i);
  if (i < n) {
    const auto rest = static_cast<size_t>(n - i);
    store_some(hn::Mul(f(d, load_some(d, gate + i, rest)), load_some(d, up + i, rest)), d, out + i, rest);
  }
}
void silu_multiply(const float* gate, const float* up, int64_t n, float* out) { gated(Silu(), gate, up, n, out); }
void gelu_tanh_multiply(const float* gate, const float* up, int64_t n, float* out) { gated(GeluTanh(), gate, up, n, out); }

void add_to(const float* x, int64_t n, float* out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Add(hn::LoadU(d, out + i), hn::LoadU(d, x + i)), d, out + i);
  for (; i < n; ++i) out[i] += x[i];
}

void add_scaled(float factor, const float* x, int64_t n, float* out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::MulAdd(f, hn::LoadU(d, x + i), hn::LoadU(d, out + i)), d, out + i);
  if (i < n) {
    const auto rest = static_cast<size_t>(n - i);
    store_some(hn::MulAdd(f, load_some(d, x + i, rest), load_some(d, out + i, rest)), d, out + i, rest);
  }
}

void scale_by(float factor, int64_t n, float* out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, out + i), f), d, out + i);
  for (; i < n; ++i) out[i] *= factor;
}

bool scale_finite(float factor, int64_t n, float* out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V f = hn::Set(d, factor);
  V lost = hn::Zero(d);  // 0 * x is 0 for a finite x, else NaN
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V y = hn::Mul(hn::LoadU(d, out + i), f);
    lost = hn::MulAdd(y, hn::Zero(d), lost);
    hn::StoreU(y, d, out + i);
  }
  bool finite = hn::AllTrue(d, hn::Eq(lost, hn::Zero(d)));
  for (; i < n; ++i) {
    out[i] *= factor;
    finite = finite && std::isfinite(out[i]);
  }
  return finite;
}

void affine(const float* x, float slope, float offset, int64_t n, float* out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V a = hn::Set(d, slope), b = hn::Set(d, offset);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::MulAdd(a, hn::LoadU(d, x + i), b), d, out + i);
  if (i < n) {
    const auto rest = static_cast<size_t>(n - i);
    store_some(hn::MulAdd(a, load_some(d, x + i, rest), b), d, out + i, rest);
  }
}

ExpSum exp_sum(const float* x, int64_t n) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V top = hn::Set(d, x[0]);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) top = hn::Max(top, hn::LoadU(d, x + i));
  float largest = hn::GetLane(hn::MaxOfLanes(d, top));
  for (; i < n; ++i) largest = std::max(largest, x[i]);
  const V shift = hn::Set(d, largest);
  // 64 vectors a block keep the f32 partial sums short; blocks add up in double.
  double sum = 0;
  V bad = hn::Zero(d);  // x - x: 0, or NaN where x is not finite, which Exp would swallow
  for (i = 0; i + lanes <= n;) {
    const int64_t stop = std::min(n - n % lanes, i + 64 * lanes);
    V part = hn::Zero(d);
    for (; i < stop; i += lanes) {
      const V t = hn::Sub(hn::LoadU(d, x + i), shift);
      bad = hn::Add(bad, hn::Sub(t, t));
      part = hn::Add(part, hn::Exp(d, t));
    }
    sum += static_cast<double>(reduce(d, part));
  }
  for (; i < n; ++i) sum += std::exp(static_cast<double>(x[i] - largest));
  return {largest, sum + static_cast<double>(reduce(d, bad))};
}

int64_t first_non_finite(const float* x, int64_t n) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  while (i < n) {
    const int64_t stop = std::min(n, i + 1024);
    int64_t j = i;
    V bad = hn::Zero(d);
    for (; j + lanes <= stop; j += lanes) {
      const V v = hn::LoadU(d, x + j);
      bad = hn::Or(bad, hn::Sub(v, v));  // bits: zero, or a NaN's
    }
    float rest = 0;
    for (; j < stop; ++j) rest += x[j] - x[j];
    if (!hn::AllTrue(d, hn::Eq(bad, bad)) || rest != 0 || std::isnan(rest)) {
      for (; i < stop; ++i) {
        if (!std::isfinite(x[i])) return i;
      }
    }
    i = stop;
  }
  return -1;
}

void narrow_to_bf16(const float* x, int64_t n, uint16_t* out) {
  const hn::ScalableTag<uint32_t> du;
  const hn::Rebind<uint16_t, decltype(du)> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(du));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    // Nearest even: add 0x7fff plus the bit that will be the last. Finite inputs only (NaN is caught before).
    const auto bits = hn::BitCast(du, hn::LoadU(D(), x + i));
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFU)));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<decltype(du)>(), hn::ShiftRight<16>(rounded))), d16, out + i);
  }
  for (; i < n; ++i) out[i] = to_bf16(x[i]).bits;
}

}  // namespace ropewalk::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk::ops {
HWY_EXPORT(dot);
HWY_EXPORT(dot_columns);
HWY_EXPORT(sum);
HWY_EXPORT(rms_norm);
HWY_EXPORT(silu_multiply);
HWY_EXPORT(gelu_tanh_multiply);
HWY_EXPORT(add_to);
HWY_EXPORT(add_scaled);
HWY_EXPORT(scale_by);
HWY_EXPORT(affine);
HWY_EXPORT(scale_finite);
HWY_EXPORT(exp_sum);
HWY_EXPORT(first_non_finite);
HWY_EXPORT(narrow_to_bf16);

float dot(const float* a, const float* b, int64_t n) noexcept { return HWY_DYNAMIC_DISPATCH(dot)(a, b, n); }
float sum(const float* x, int64_t n) noexcept { return HWY_DYNAMIC_DISPATCH(sum)(x, n); }
void dot_columns(const float* a, const float* b, int64_t columns, int64_t n, float* out, int64_t stride) noexcept {
  HWY_DYNAMIC_DISPATCH(dot_columns)(a, b, columns, n, out, stride);
}
void rms_norm(const float* x, const float* w, float plus, float epsilon, int64_t n, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(rms_norm)(x, w, plus, epsilon, n, out);
}
void silu_multiply(const float* gate, const float* up, int64_t n, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(silu_multiply)(gate, up, n, out);
}
void gelu_tanh_multiply(const float* gate, const float* up, int64_t n, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(gelu_tanh_multiply)(gate, up, n, out);
}
void add_to(const float* x, int64_t n, float* out) noexcept { HWY_DYNAMIC_DISPATCH(add_to)(x, n, out); }
void add_scaled(float factor, const float* x, int64_t n, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(add_scaled)(factor, x, n, out);
}
void scale_by(float factor, int64_t n, float* out) noexcept { HWY_DYNAMIC_DISPATCH(scale_by)(factor, n, out); }
bool scale_finite(float factor, int64_t n, float* out) noexcept { return HWY_DYNAMIC_DISPATCH(scale_finite)(factor, n, out); }
void affine(const float* x, float slope, float offset, int64_t n, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(affine)(x, slope, offset, n, out);
}
ExpSum exp_sum(const float* x, int64_t n) noexcept { return HWY_DYNAMIC_DISPATCH(exp_sum)(x, n); }
int64_t first_non_finite(const float* x, int64_t n) noexcept { return HWY_DYNAMIC_DISPATCH(first_non_finite)(x, n); }
void narrow_to_bf16(const float* x, int64_t n, uint16_t* out) noexcept { HWY_DYNAMIC_DISPATCH(narrow_to_bf16)(x, n, out); }
}  // namespace ropewalk::ops
#endif
