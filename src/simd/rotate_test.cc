// The rotation kernel on every target: shapes, strides, types, and nothing touched outside the heads.
#include "simd/rotate.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "simd/test_targets.h"

namespace ropewalk::simd {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

void narrow(float x, float& out) { out = x; }
void narrow(float x, f16_t& out) { out = to_f16(x); }
void narrow(float x, bf16_t& out) { out = to_bf16(x); }

struct Shape {
  int64_t tokens = 1;
  int heads = 1, dim = 2, begin = 0, planes = 1;
  bool interleaved = false;
  int64_t gap = 0;     // elements between heads and between tokens that belong to nobody
  int64_t offset = 0;  // misalignment in elements
};

// Memory around and between the heads is NaN, and must stay what it was.
template <class T>
struct Case {
  explicit Case(const Shape& s) : shape(s) {
    head_stride = s.dim + s.gap;
    token_stride = head_stride * s.heads + s.gap;
    x.resize(static_cast<size_t>(s.offset + token_stride * s.tokens + 3));
    for (T& e : x) narrow(kNaN, e);
    Random random(3, static_cast<uint64_t>(s.planes));
    for (int64_t t = 0; t < s.tokens; ++t) {
      for (int h = 0; h < s.heads; ++h) {
        for (int j = 0; j < s.dim; ++j) narrow(static_cast<float>(random.normal()), x[index(t, h, j)]);
      }
    }
    for (int64_t i = 0; i < s.tokens * s.planes; ++i) {
      const double angle = random.uniform() * 7;
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  size_t index(int64_t t, int h, int j) const {
    return static_cast<size_t>(shape.offset + t * token_stride + h * head_stride + j);
  }
  RotateArgs args(const T* from, T* to) const {
    RotateArgs a;
    a.x = from + shape.offset;
    a.out = to + shape.offset;
    a.dtype = DTypeOf<T>::value;
    a.x_token_stride = a.out_token_stride = token_stride;
    a.x_head_stride = a.out_head_stride = head_stride;
    a.heads = shape.heads;
    a.dim = shape.dim;
    a.begin = shape.begin;
    a.planes = shape.planes;
    a.interleaved = shape.interleaved;
    a.cos = cos.data();
    a.sin = sin.data();
    return a;
  }
  Shape shape;
  int64_t head_stride = 0, token_stride = 0;
  std::vector<T> x;
  std::vector<float> cos, sin;
};

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  for (int planes = 1; planes <= 35; ++planes) {  // 0 .. 2N + 1 for the widest vectors, and 40 = 80 / 2, 300 > one chunk
    for (const bool interleaved : {false, true}) {
      out.push_back({2, 3, 2 * planes, 0, planes, interleaved, 0, planes % 4});
      out.push_back({3, 1, 2 * planes + 5, planes % 3, planes, interleaved, 1, 1});
    }
  }
  for (const int planes : {40, 64, 128, 300}) {
    for (const bool interleaved : {false, true}) out.push_back({2, 5, 2 * planes + 6, 6, planes, interleaved, 3, 1});
  }
  return out;
}

template <class T>
uint32_t bits(T x) {
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<uint32_t>(x);
  } else {
    return x.bits;
  }
}

// f32: one product is rounded, the sum is rounded, and without FMA the other product too; with u = 2^-24 the error is at most
// u (|x c| + |partner s| + |y|) (1 + u).
void check_against_double(const Case<float>& c, const std::vector<float>& y) {
  const Shape& s = c.shape;
  for (int64_t t = 0; t < s.tokens; ++t) {
    for (int h = 0; h < s.heads; ++h) {
      for (int i = 0; i < s.planes; ++i) {
        const int a = s.begin + (s.interleaved ? 2 * i : i), b = s.begin + (s.interleaved ? 2 * i + 1 : i + s.planes);
        const double xa = static_cast<double>(c.x[c.index(t, h, a)]), xb = static_cast<double>(c.x[c.index(t, h, b)]);
        const double cos = static_cast<double>(c.cos[static_cast<size_t>(t * s.planes + i)]);
        const double sin = static_cast<double>(c.sin[static_cast<size_t>(t * s.planes + i)]);
        const double ya = xa * cos - xb * sin, yb = xb * cos + xa * sin;
        const double bound_a = 0x1.000002p-24 * (std::abs(xa * cos) + std::abs(xb * sin) + std::abs(ya));
        const double bound_b = 0x1.000002p-24 * (std::abs(xb * cos) + std::abs(xa * sin) + std::abs(yb));
        ASSERT_NEAR(static_cast<double>(y[c.index(t, h, a)]), ya, bound_a) << s.planes << " " << i << " " << s.interleaved;
        ASSERT_NEAR(static_cast<double>(y[c.index(t, h, b)]), yb, bound_b) << s.planes << " " << i << " " << s.interleaved;
      }
    }
  }
}

template <class T>
void check_untouched(const Case<T>& c, const std::vector<T>& before, const std::vector<T>& after) {
  std::vector<bool> turned(before.size(), false);
  for (int64_t t = 0; t < c.shape.tokens; ++t) {
    for (int h = 0; h < c.shape.heads; ++h) {
      for (int j = 0; j < 2 * c.shape.planes; ++j) turned[c.index(t, h, c.shape.begin + j)] = true;
    }
  }
  for (size_t i = 0; i < before.size(); ++i) {
    if (turned[i]) continue;
    ASSERT_EQ(bits(before[i]), bits(after[i])) << "element " << i << ", planes " << c.shape.planes;
  }
}

class RotateTest : public EachTarget {};

TEST_P(RotateTest, F32InPlaceAgainstDouble) {
  for (const Shape& shape : shapes()) {
    const Case<float> c(shape);
    auto y = c.x;
    rotate_tokens(c.args(y.data(), y.data()), 0, shape.tokens);
    check_against_double(c, y);
    check_untouched(c, c.x, y);
  }
}

TEST_P(RotateTest, OutOfPlaceEqualsInPlaceAndCopiesTheRest) {
  for (const Shape& shape : shapes()) {
    const Case<float> c(shape);
    auto y = c.x;
    rotate_tokens(c.args(y.data(), y.data()), 0, shape.tokens);
    std::vector<float> out(c.x.size(), kNaN);
    rotate_tokens(c.args(c.x.data(), out.data()), 0, shape.tokens);
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(bits(y[i]), bits(out[i])) << i;
  }
}

// Arithmetic in f32 and one rounding at the end: the narrow kernels give the rounded bits of the f32 one.
template <class T>
void check_narrow() {
  for (const Shape& shape : shapes()) {
    const Case<T> c(shape);
    Case<float> wide(shape);
    for (size_t i = 0; i < c.x.size(); ++i) wide.x[i] = to_f32(c.x[i]);
    auto y = c.x;
    auto y_wide = wide.x;
    rotate_tokens(c.args(y.data(), y.data()), 0, shape.tokens);
    rotate_tokens(wide.args(y_wide.data(), y_wide.data()), 0, shape.tokens);
    for (size_t i = 0; i < y.size(); ++i) {
      T want;
      narrow(y_wide[i], want);
      ASSERT_EQ(bits(want), bits(y[i])) << i << " planes " << shape.planes;
    }
    check_untouched(c, c.x, y);
  }
}
TEST_P(RotateTest, F16IsF32RoundedOnce) { check_narrow<f16_t>(); }
TEST_P(RotateTest, BF16IsF32RoundedOnce) { check_narrow<bf16_t>(); }

// Every 16-bit pattern through a turn by 0 (cos 1, sin 0, the partner 0) comes back; NaN as some NaN.
template <class T>
void check_all_patterns(bool interleaved) {
  Shape shape{1, 1, 1 << 17, 0, 1 << 16, interleaved, 0, 0};
  std::vector<T> x(1 << 17);
  for (uint32_t i = 0; i < 1 << 16; ++i) x[interleaved ? 2 * i : i].bits = static_cast<uint16_t>(i);
  Case<T> c(shape);
  std::fill(c.cos.begin(), c.cos.end(), 1.0F);
  std::fill(c.sin.begin(), c.sin.end(), 0.0F);
  auto y = x;
  rotate_tokens(c.args(y.data(), y.data()), 0, 1);
  for (uint32_t i = 0; i < 1 << 16; ++i) {
    const T got = y[interleaved ? 2 * i : i];
    if (std::isnan(to_f32(x[interleaved ? 2 * i : i]))) {
      ASSERT_TRUE(std::isnan(to_f32(got))) << i;
    } else {
      ASSERT_EQ(got.bits, i);
    }
  }
}
TEST_P(RotateTest, EveryHalfPattern) {
  for (const bool interleaved : {false, true}) {
    check_all_patterns<f16_t>(interleaved);
    check_all_patterns<bf16_t>(interleaved);
  }
}

// x = 1 and sin = 0 make the result the cos itself: the narrowing of any float, ties, subnormals and specials included.
template <class T>
void check_narrowing() {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 1 << 16; ++upper) {
    for (const uint32_t lower : {0x0000U, 0x0001U, 0x0fffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      values.push_back(std::bit_cast<float>((upper << 16) | lower));
    }
  }
  const int planes = static_cast<int>(values.size());
  Case<T> c({1, 1, 2 * planes, 0, planes, false, 0, 0});
  c.cos = values;
  std::fill(c.sin.begin(), c.sin.end(), 0.0F);
  for (int i = 0; i < planes; ++i) {
    narrow(1.0F, c.x[static_cast<size_t>(i)]);
    narrow(0.0F, c.x[static_cast<size_t>(i + planes)]);
  }
  auto y = c.x;
  rotate_tokens(c.args(y.data(), y.data()), 0, 1);
  for (size_t i = 0; i < values.size(); ++i) {
    T want;
    narrow(values[i], want);
    if (std::isnan(values[i])) {
      ASSERT_TRUE(std::isnan(to_f32(y[i]))) << std::bit_cast<uint32_t>(values[i]);
    } else {
      ASSERT_EQ(want.bits, y[i].bits) << std::bit_cast<uint32_t>(values[i]);
    }
  }
}
TEST_P(RotateTest, NarrowingRoundsToNearestEven) {
  check_narrowing<f16_t>();
  check_narrowing<bf16_t>();
}

// Permuted input with the one pairing gives the permuted bits of the other (encodings.md, section 3).
TEST_P(RotateTest, PairingsRoundAlike) {
  const int planes = 37;
  const Case<float> halves({3, 2, 2 * planes, 0, planes, false, 0, 0});
  const Case<float> pairs({3, 2, 2 * planes, 0, planes, true, 0, 0});
  auto x = pairs.x;
  for (int64_t t = 0; t < 3; ++t) {
    for (int h = 0; h < 2; ++h) {
      for (int j = 0; j < 2 * planes; ++j) x[pairs.index(t, h, j)] = halves.x[halves.index(t, h, j / 2 + j % 2 * planes)];
    }
  }
  auto y = halves.x;
  rotate_tokens(halves.args(y.data(), y.data()), 0, 3);
  rotate_tokens(pairs.args(x.data(), x.data()), 0, 3);
  for (int64_t t = 0; t < 3; ++t) {
    for (int h = 0; h < 2; ++h) {
      for (int j = 0; j < 2 * planes; ++j) {
        ASSERT_EQ(bits(x[pairs.index(t, h, j)]), bits(y[halves.index(t, h, j / 2 + j % 2 * planes)]));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Simd, RotateTest, all_targets(), target_name);

}  // namespace
}  // namespace ropewalk::simd
