#include "simd/sincos.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/sincos.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "simd/sincos-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropewalk::simd::HWY_NAMESPACE {

template <class D, class V>
HWY_INLINE void store(D d, V v, double* out) {
  hn::StoreU(v, d, out);
}
template <class D, class V>
HWY_INLINE void store(D d, V v, float* out) {
  const hn::Rebind<float, D> df;
  (void)d;
  hn::StoreU(hn::DemoteTo(df, v), df, out);
}

template <class T>
HWY_INLINE void sincos_array(const double* m, const double* f, int64_t n, double amplitude, T* cos, T* sin) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, amplitude);
  const auto step = [&](const double* mi, const double* fi, T* ci, T* si) HWY_ATTR {
    hn::Vec<decltype(d)> c, s;
    sincos_product(d, hn::LoadU(d, mi), hn::LoadU(d, fi), c, s);
    store(d, hn::Mul(c, scale), ci);
    store(d, hn::Mul(s, scale), si);
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step(m + i, f + i, cos + i, sin + i);
  if (i == n) return;
  double tail_m[HWY_MAX_BYTES / sizeof(double)] = {}, tail_f[HWY_MAX_BYTES / sizeof(double)] = {};
  T tail_cos[HWY_MAX_BYTES / sizeof(double)], tail_sin[HWY_MAX_BYTES / sizeof(double)];
  for (int64_t j = i; j < n; ++j) {
    tail_m[j - i] = m[j];
    tail_f[j - i] = f[j];
  }
  step(tail_m, tail_f, tail_cos, tail_sin);
  for (int64_t j = i; j < n; ++j) {
    cos[j] = tail_cos[j - i];
    sin[j] = tail_sin[j - i];
  }
}

void sincos_f32(const double* m, const double* f, int64_t n, double amplitude, float* cos, float* sin) {
  sincos_array(m, f, n, amplitude, cos, sin);
}
void sincos_f64(const double* m, const double* f, int64_t n, double amplitude, double* cos, double* sin) {
  sincos_array(m, f, n, amplitude, cos, sin);
}

}  // namespace ropewalk::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk::simd {
HWY_EXPORT(sincos_f32);
HWY_EXPORT(sincos_f64);

void sincos_products(const double* m, const double* f, int64_t n, double amplitude, float* cos, float* sin) noexcept {
  HWY_DYNAMIC_DISPATCH(sincos_f32)(m, f, n, amplitude, cos, sin);
}
void sincos_products(const double* m, const double* f, int64_t n, double amplitude, double* cos, double* sin) noexcept {
  HWY_DYNAMIC_DISPATCH(sincos_f64)(m, f, n, amplitude, cos, sin);
}

}  // namespace ropewalk::simd
#endif
