#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/fail.h"
#include "engine/product.h"
#include "workbench/bench/cases.h"
#include "workbench/bench/random_fill.h"

namespace ropewalk {
namespace {

// The row blocks that the engine's forward pass multiplies by.
constexpr int64_t kBlockRows = 256;

// Sampled outputs against sums in double, relative to the root of the sum of squared terms.
double worst_error(const BenchTensor& a, const BenchTensor& w, const float* out, const MatmulShape& shape) {
  double worst = 0;
  for (int64_t sample = 0; sample < 64; ++sample) {
    const int64_t row = sample * (shape.rows - 1) / 63, column = (sample * 7919) % shape.outputs;
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < shape.inputs; ++k) {
      const double term = a.at(row * shape.inputs + k) * w.at(column * shape.inputs + k);
      sum += term;
      squares += term * term;
    }
    const double error = std::abs(static_cast<double>(out[row * shape.outputs + column]) - sum) / std::sqrt(squares);
    worst = error <= worst ? worst : std::isnan(error) ? 1.0 : error;
  }
  return worst;
}

// Each term rounds its two inputs (bf16: at most 2^-8 each, independently, about 2^-9 rms), which relative to the root of the
// sum of squares is sqrt(2) 2^-9 rms; five times that covers 64 samples. f32: K additions, each rounding a partial sum of at
// most sqrt(K) terms' size, independently: sqrt(K) sqrt(K) 2^-24 is a bound for their root of the sum of squares; the factor
// is 2.
double error_bound(bool bf16, int64_t inputs) { return bf16 ? 7 * 0x1p-9 : 2 * static_cast<double>(inputs) * 0x1p-24; }

Result<BenchRow> bench_one(const MatmulShape& shape, bool bf16, const Limit& limit, const BenchOptions& options,
                           const Control& control, BenchReport& report) {
  const Threads threads{options.threads};
  ROPEWALK_TRY(const BenchTensor a, random_tensor(DType::kF32, shape.rows * shape.inputs, options.seed, 1, threads));
  ROPEWALK_TRY(const BenchTensor w, random_tensor(DType::kF32, shape.outputs * shape.inputs, options.seed, 2, threads));
  ROPEWALK_TRY(AlignedBuffer<float> out, AlignedBuffer<float>::make(shape.rows * shape.outputs));
  const auto* inputs = reinterpret_cast<const float*>(a.bytes.data());

  const StoredTensor stored{"random", BlockType::kF32, {shape.outputs, shape.inputs}, w.bytes.span()};
  PackedMatrix matrix;
  const PackedMatrix::Options packing{.bf16 = bf16, .threads = options.threads, .block_rows = kBlockRows};
  ROPEWALK_CHECK_OK(matrix.assign(std::array{RowRange{&stored, 0, shape.outputs}}, "bench", packing));
  const int64_t blocks = (shape.rows + kBlockRows - 1) / kBlockRows, tail = shape.rows - (blocks - 1) * kBlockRows;
  ROPEWALK_CHECK_OK(matrix.prepare(std::min(kBlockRows, shape.rows), false));
  ROPEWALK_CHECK_OK(matrix.prepare(tail, false));
  std::vector<ProductScratch> scratch(static_cast<size_t>(options.threads));
  const auto multiply = [&]() -> Result<void> {
    parallel_for(threads, blocks, [&](int64_t block, int thread) {
      const int64_t first = block * kBlockRows, rows = std::min(kBlockRows, shape.rows - first);
      matrix.multiply(inputs + first * shape.inputs, rows, false, out.data() + first * shape.outputs,
                      scratch[static_cast<size_t>(thread)]);
    });
    return {};
  };

  BenchRow row;
  row.name = "matmul";
  row.setup = {{"rows", shape.rows},
               {"outputs", shape.outputs},
               {"inputs", shape.inputs},
               {"compute", bf16 ? "bf16" : "f32"},
               {"threads", options.threads}};
  ROPEWALK_CHECK_OK(multiply());
  row.error = worst_error(a, w, out.data(), shape);
  row.checked = row.error <= error_bound(bf16, shape.inputs);
  const double giga_flop =
      2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.outputs) * static_cast<double>(shape.inputs) / 1e9;
  ROPEWALK_CHECK_OK(measure(options, limit, giga_flop, multiply, control, row, report));
  return row;
}

}  // namespace

Result<BenchReport> bench_matmul(const MatmulBench& setup, const BenchOptions& options, const Control& control) {
  BenchReport report;
  const bool bf16 = setup.compute == DType::kBF16 && bf16_products();
  const Limit limit = bf16 ? bf16_limit(options) : f32_limit(options);
  for (const MatmulShape& shape : setup.shapes) {
    ROPEWALK_TRY(BenchRow row, bench_one(shape, bf16, limit, options, control, report));
    report.rows.push_back(std::move(row));
  }
  return report;
}

}  // namespace ropewalk
