// cos and sin of products m * f of two doubles, right far beyond what the double nearest to m * f could give.
#pragma once

#include <cstdint>

namespace ropewalk::simd {

// |m * f| may reach this: see the proof in sincos-inl.h.
inline constexpr double kMaxAngle = 0x1p45;

// cos[i] = amplitude * cos(m[i] * f[i]), the same for sin, i in [0, n). The product and its reduction carry at least 115 bits
// below the point, so the float results are within 0.51 ulp of the true value before the amplitude (one double rounding more
// with it), beside the zeros of cos and sin too; the double results are within 2 ulp. All SIMD targets give the same bits.
// Precondition: m and f finite, |m f| <= kMaxAngle. Arrays may not overlap.
void sincos_products(const double* m, const double* f, int64_t n, double amplitude, float* cos, float* sin) noexcept;
void sincos_products(const double* m, const double* f, int64_t n, double amplitude, double* cos, double* sin) noexcept;

}  // namespace ropewalk::simd
