// Elementwise and row kernels of the forward pass, in f32, on the best SIMD target of this machine. No alignment is asked for.
// Unless said otherwise pointers may be equal but must not overlap in part.
#pragma once

#include <cstdint>

namespace ropewalk::ops {

// out[i] = x[i] / sqrt(mean(x^2) + epsilon) * (w[i] + plus)      (Zhang and Sennrich 2019, arXiv:1910.07467, eq. 4)
// plus = 1 where the file stores w - 1 (Gemma in Hugging Face files). The sum runs over lanes: relative error below (n/lanes +
// 8) * 2^-24.
void rms_norm(const float* x, const float* w, float plus, float epsilon, int64_t n, float* out) noexcept;

// out[i] = silu(gate[i]) * up[i], silu(z) = z / (1 + e^-z).
void silu_multiply(const float* gate, const float* up, int64_t n, float* out) noexcept;
// out[i] = gelu(gate[i]) * up[i] in the tanh form: 0.5 z (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))) (Hendrycks and Gimpel 2016).
void gelu_tanh_multiply(const float* gate, const float* up, int64_t n, float* out) noexcept;

void add_to(const float* x, int64_t n, float* out) noexcept;                    // out[i] += x[i]
void add_scaled(float factor, const float* x, int64_t n, float* out) noexcept;  // out[i] += factor * x[i]
void scale_by(float factor, int64_t n, float* out) noexcept;                    // out[i] *= factor
bool scale_finite(float factor, int64_t n, float* out) noexcept;  // the same; false where a product is NaN or infinite
void affine(const float* x, float slope, float offset, int64_t n, float* out) noexcept;  // out[i] = slope * x[i] + offset

float dot(const float* a, const float* b, int64_t n) noexcept;
float sum(const float* x, int64_t n) noexcept;

// out[c * stride] = a . (row c of b), c < columns <= 8, b [columns][n]: one read of `a` serves every column.
void dot_columns(const float* a, const float* b, int64_t columns, int64_t n, float* out, int64_t stride) noexcept;

// The largest element and sum of exp(x[i] - largest), in double across blocks. n > 0; a NaN anywhere makes the sum NaN.
struct ExpSum {
  float largest = 0;
  double sum = 0;
};
ExpSum exp_sum(const float* x, int64_t n) noexcept;

// Index of the first element that is NaN or infinite, or -1. One pass at memory speed.
int64_t first_non_finite(const float* x, int64_t n) noexcept;

// out[i] = bf16(x[i]), nearest even; the bits of each as uint16.
void narrow_to_bf16(const float* x, int64_t n, uint16_t* out) noexcept;

}  // namespace ropewalk::ops
