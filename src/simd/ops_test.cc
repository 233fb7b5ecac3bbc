#include "simd/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "ropewalk/dtype.h"
#include "simd/test_targets.h"

namespace ropewalk {
namespace {

// Values in a buffer with `offset` elements before them and NaN all around, so that reads and writes outside show.
struct Padded {
  Padded(int64_t n, int64_t offset, uint64_t seed, double spread = 1)
      : offset_(offset), values(static_cast<size_t>(n + offset + 32), kNan) {
    Random random(seed);
    for (int64_t i = 0; i < n; ++i) data()[i] = static_cast<float>(spread * random.normal());
  }
  float* data() { return values.data() + offset_; }
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  int64_t offset_;
  std::vector<float> values;
};

double wide(float x) { return static_cast<double>(x); }

// Lengths around the vector sizes of every target, and offsets that break alignment.
template <class Function>
void for_each_shape(Function f) {
  for (int64_t n = 1; n <= 70; ++n) {
    for (const int64_t offset : {0, 1, 3}) f(n, offset);
  }
  f(576, 0);
  f(4097, 1);
}

constexpr double kUlp = 0x1p-24;

class Ops : public simd::EachTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Ops, simd::all_targets(), simd::target_name);

TEST_P(Ops, Dot) {
  for_each_shape([](int64_t n, int64_t offset) {
    Padded a(n, offset, 1), b(n, 1, 2);
    double want = 0, size = 0;
    for (int64_t i = 0; i < n; ++i) {
      want += wide(a.data()[i]) * wide(b.data()[i]);
      size += std::abs(wide(a.data()[i]) * wide(b.data()[i]));
    }
    // n fused steps at most, each half an ulp of a partial sum below `size`.
    EXPECT_NEAR(wide(ops::dot(a.data(), b.data(), n)), want, size * static_cast<double>(n + 8) * kUlp) << n;
    double total = 0, sizes = 0;
    for (int64_t i = 0; i < n; ++i) {
      total += wide(a.data()[i]);
      sizes += std::abs(wide(a.data()[i]));
    }
    EXPECT_NEAR(wide(ops::sum(a.data(), n)), total, sizes * static_cast<double>(n + 8) * kUlp) << n;
  });
}

TEST_P(Ops, DotColumns) {
  for (const int64_t n : {1, 5, 16, 33, 100}) {
    for (int64_t columns = 1; columns <= 8; ++columns) {
      Padded a(n, 1, 3), b(n * columns, 2, 4);
      std::vector<float> out(static_cast<size_t>(columns * 3), 7.0F);
      ops::dot_columns(a.data(), b.data(), columns, n, out.data(), 3);
      for (int64_t c = 0; c < columns; ++c) {
        double want = 0, size = 0;
        for (int64_t i = 0; i < n; ++i) {
          const double term = wide(a.data()[i]) * wide(b.data()[c * n + i]);
          want += term;
          size += std::abs(term);
        }
        EXPECT_NEAR(wide(out[static_cast<size_t>(c * 3)]), want, size * static_cast<double>(n + 8) * kUlp);
        EXPECT_TRUE(c + 1 == columns || out[static_cast<size_t>(c * 3 + 1)] == 7.0F);
      }
    }
  }
}

TEST_P(Ops, RmsNorm) {
  for_each_shape([](int64_t n, int64_t offset) {
    for (const float plus : {0.0F, 1.0F}) {
      Padded x(n, offset, 5, 3), w(n, 1, 6), out(n, 0, 7);
      double squares = 0;
      for (int64_t i = 0; i < n; ++i) squares += wide(x.data()[i]) * wide(x.data()[i]);
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
      const double before = wide(x.data()[0]);
      ops::rms_norm(x.data(), w.data(), plus, 1e-5F, n, out.data());
      for (int64_t i = 0; i < n; ++i) {
        const double want = wide(x.data()[i]) * inverse * (wide(w.data()[i]) + wide(plus));
        EXPECT_NEAR(wide(out.data()[i]), want, (std::abs(want) + 1e-6) * static_cast<double>(n + 16) * kUlp) << n;
      }
      EXPECT_EQ(wide(x.data()[0]), before);
      EXPECT_TRUE(std::isnan(out.data()[n]));
      ops::rms_norm(x.data(), w.data(), plus, 1e-5F, n, x.data());  // in place
      for (int64_t i = 0; i < n; ++i) EXPECT_EQ(x.data()[i], out.data()[i]);
    }
  });
}

TEST_P(Ops, GatedActivations) {
  for_each_shape([](int64_t n, int64_t offset) {
    Padded gate(n, offset, 8, 6), up(n, 1, 9), silu(n, 0, 10), gelu(n, 0, 11);
    if (n > 2) gate.data()[0] = -200, gate.data()[1] = 200;
    ops::silu_multiply(gate.data(), up.data(), n, silu.data());
    ops::gelu_tanh_multiply(gate.data(), up.data(), n, gelu.data());
    for (int64_t i = 0; i < n; ++i) {
      const double z = wide(gate.data()[i]), u = wide(up.data()[i]);
      // exp is right to 1 ulp of its argument's rounding: |z| ulp; a few more for sums and quotients.
      const double want = z / (1 + std::exp(-z)) * u;
      EXPECT_NEAR(wide(silu.data()[i]), want, std::abs(want) * (std::abs(z) + 8) * kUlp + 1e-30) << z;
      const double inner = std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z);
      // 0.5 z (1 + tanh) written without its cancellation for negative z.
      const double want_gelu = z / (1 + std::exp(-2 * inner)) * u;
      EXPECT_NEAR(wide(gelu.data()[i]), want_gelu, std::abs(want_gelu) * (8 * std::abs(inner) + 8) * kUlp + 1e-30) << z;
    }
    EXPECT_TRUE(std::isnan(silu.data()[n]));
    EXPECT_TRUE(std::isnan(gelu.data()[n]));
  });
}

TEST_P(Ops, ExpSum) {
  for_each_shape([](int64_t n, int64_t offset) {
    Padded x(n, offset, 12, 20);
    double largest = -1e300, sum = 0;
    for (int64_t i = 0; i < n; ++i) largest = std::max(largest, wide(x.data()[i]));
    for (int64_t i = 0; i < n; ++i) sum += std::exp(wide(x.data()[i]) - largest);
    const ops::ExpSum got = ops::exp_sum(x.data(), n);
    EXPECT_EQ(wide(got.largest), largest);
    // Differences up to 160 are rounded to f32 before the exponential, where they matter only near 0: e^-d d ulp <= ulp.
    EXPECT_NEAR(got.sum, sum, sum * 80 * kUlp) << n;
    x.data()[n / 2] = Padded::kNan;
    EXPECT_TRUE(std::isnan(ops::exp_sum(x.data(), n).sum)) << n;
  });
}

TEST_P(Ops, FirstNonFinite) {
  for_each_shape([](int64_t n, int64_t offset) {
    Padded x(n, offset, 13);
    EXPECT_EQ(ops::first_non_finite(x.data(), n), -1);
    for (const int64_t place : {int64_t{0}, n / 2, n - 1}) {
      for (const float bad : {Padded::kNan, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
        const float before = x.data()[place];
        x.data()[place] = bad;
        EXPECT_EQ(ops::first_non_finite(x.data(), n), place);
        x.data()[place] = before;
      }
    }
    x.data()[0] = std::numeric_limits<float>::max();
    EXPECT_EQ(ops::first_non_finite(x.data(), n), -1);
  });
}

TEST_P(Ops, NarrowToBf16IsTheScalarConversion) {
  for_each_shape([](int64_t n, int64_t offset) {
    Padded x(n, offset, 14, 1e3);
    x.data()[0] = 1.00390625F;  // halfway between two bf16 numbers
    std::vector<uint16_t> out(static_cast<size_t>(n));
    ops::narrow_to_bf16(x.data(), n, out.data());
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], to_bf16(x.data()[i]).bits);
  });
}

TEST_P(Ops, AddAndScale) {
  for_each_shape([](int64_t n, int64_t offset) {
    Padded x(n, offset, 15), y(n, 1, 16);
    std::vector<float> want(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) want[static_cast<size_t>(i)] = (x.data()[i] + y.data()[i]) * 3.5F;
    ops::add_to(x.data(), n, y.data());
    ops::scale_by(3.5F, n, y.data());
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(y.data()[i], want[static_cast<size_t>(i)]);
    ops::add_scaled(-0.5F, y.data(), n, y.data());
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(y.data()[i], 0.5F * want[static_cast<size_t>(i)], 1e-6F);
    ops::scale_by(2.0F, n, y.data());
    EXPECT_TRUE(ops::scale_finite(2.0F, n, y.data()));
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(y.data()[i], 2 * want[static_cast<size_t>(i)]);
    for (int64_t i = 0; i < n; i += 5) {
      Padded bad(n, offset, 15);
      bad.data()[i] = i % 2 == 0 ? INFINITY : NAN;
      EXPECT_FALSE(ops::scale_finite(1.0F, n, bad.data())) << i;
    }
    ops::affine(x.data(), 3.5F, -1.25F, n, y.data());
    for (int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(y.data()[i], 3.5F * x.data()[i] - 1.25F, 1e-6F * (1 + std::abs(x.data()[i]) * 4));
  });
}

}  // namespace
}  // namespace ropewalk
