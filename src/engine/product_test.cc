// Packed and stored products against double, over odd sizes, stacked parts, row counts and threads.
#include "engine/product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "engine/stored_products.h"
#include "ropewalk/dtype.h"

namespace ropewalk {
namespace {

struct Matrix {
  StoredTensor tensor;
  std::vector<float> values;
  Matrix(int64_t rows, int64_t cols, uint64_t seed) : values(static_cast<size_t>(rows * cols)) {
    Random random(seed);
    for (float& v : values) v = static_cast<float>(random.normal());
    tensor = {"m", BlockType::kF32, {rows, cols}, std::as_bytes(std::span(values))};
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
};

std::vector<float> inputs(int64_t rows, int64_t cols) {
  std::vector<float> a(static_cast<size_t>(rows * cols));
  Random random(99);
  for (float& v : a) v = static_cast<float>(random.normal());
  return a;
}

struct Shape {
  int64_t rows, k, first, second;  // rows of a; inputs; outputs of the two stacked parts
};
constexpr Shape kShapes[] = {{1, 1, 1, 1},      {3, 20, 7, 5},     {17, 33, 64, 65},
                             {16, 24, 128, 31}, {40, 96, 192, 64}, {8, 640, 130, 2}};

double rounded(float x, bool bf16) { return static_cast<double>(bf16 ? to_f32(to_bf16(x)) : x); }

// out = a W^T + before, with |error| <= (k + 2) 2^-24 times the sum of |terms|: k fused steps in any order and one addition.
void expect_product(const std::vector<float>& out, const std::vector<float>& a, const Matrix& w0, int64_t skip,
                    const Matrix& w1, const Shape& s, double before, bool bf16) {
  const int64_t n = s.first + s.second;
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t c = 0; c < n; ++c) {
      const float* w = c < s.first ? w0.values.data() + (skip + c) * s.k : w1.values.data() + (c - s.first) * s.k;
      double want = before, size = std::abs(before);
      for (int64_t i = 0; i < s.k; ++i) {
        const double term = rounded(a[static_cast<size_t>(r * s.k + i)], bf16) * rounded(w[i], bf16);
        want += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(static_cast<double>(out[static_cast<size_t>(r * n + c)]), want, size * static_cast<double>(s.k + 2) * 0x1p-24)
          << r << " " << c << " of " << s.rows << " x " << n;
    }
  }
}

TEST(Product, PackedAgreesWithDouble) {
  for (const bool bf16 : {false, true}) {
    for (const Shape& s : kShapes) {
      const Matrix w0(s.first + 3, s.k, 1), w1(s.second, s.k, 2);  // the first part starts at row 3 of its tensor
      const std::vector<RowRange> parts = {{&w0.tensor, 3, s.first}, {&w1.tensor, 0, s.second}};
      const std::vector<float> a = inputs(s.rows, s.k);
      for (const int threads : {1, 3}) {
        PackedMatrix packed;
        // bf16 is computed with emulation on some processors and refused on others.
        const Result<void> made = packed.assign(parts, "test", {.bf16 = bf16, .threads = threads, .block_rows = 16});
        if (bf16 && !bf16_products() && !made) {
          EXPECT_EQ(made.error().code(), ErrorCode::kUnsupported);
          continue;
        }
        ASSERT_TRUE(made) << made.error().message();
        EXPECT_EQ(packed.outputs(), s.first + s.second);
        EXPECT_EQ(packed.inputs(), s.k);
        ProductScratch scratch;
        for (const bool accumulate : {false, true}) {
          ASSERT_TRUE(packed.prepare(s.rows, accumulate));
          std::vector<float> out(static_cast<size_t>(s.rows * packed.outputs()), 2.0F);
          packed.multiply(a.data(), s.rows, accumulate, out.data(), scratch);
          expect_product(out, a, w0, 3, w1, s, accumulate ? 2.0 : 0.0, bf16);
        }
      }
    }
  }
}

TEST(Product, ReassignedForAnotherLayerAndAnotherShape) {
  PackedMatrix packed;
  ProductScratch scratch;
  for (const Shape& s : {kShapes[4], kShapes[4], kShapes[1], kShapes[5]}) {
    const Matrix w0(s.first, s.k, static_cast<uint64_t>(s.k)), w1(s.second, s.k, 2);
    const std::vector<RowRange> parts = {{&w0.tensor, 0, s.first}, {&w1.tensor, 0, s.second}};
    ASSERT_TRUE(packed.assign(parts, "test", {}));
    ASSERT_TRUE(packed.prepare(s.rows, false));
    const std::vector<float> a = inputs(s.rows, s.k);
    std::vector<float> out(static_cast<size_t>(s.rows * packed.outputs()));
    packed.multiply(a.data(), s.rows, false, out.data(), scratch);
    expect_product(out, a, w0, 0, w1, s, 0, false);
  }
}

TEST(Product, StoredAgreesWithDouble) {
  for (Shape s : kShapes) {
    s.rows = std::min(s.rows, kFewRows);
    const Matrix w0(s.first + 3, s.k, 1), w1(s.second, s.k, 2);
    const std::vector<RowRange> parts = {{&w0.tensor, 3, s.first}, {&w1.tensor, 0, s.second}};
    const std::vector<float> a = inputs(s.rows, s.k);
    for (const int threads : {1, 3}) {
      for (const bool accumulate : {false, true}) {
        std::vector<float> out(static_cast<size_t>(s.rows * (s.first + s.second)), 2.0F);
        multiply_stored(parts, a.data(), s.rows, accumulate, out.data(), Threads{threads});
        expect_product(out, a, w0, 3, w1, s, accumulate ? 2.0 : 0.0, false);
      }
    }
  }
}

}  // namespace
}  // namespace ropewalk
