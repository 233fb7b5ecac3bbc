// Matrix products out = a W^T with W prepared once (oneDNN, weights in the layout that its kernel asks for).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/tensor.h"
#include "ropewalk/error.h"

namespace ropewalk {

// Rows of a stored matrix.
struct RowRange {
  const StoredTensor* tensor = nullptr;
  int64_t first = 0;
  int64_t count = 0;
};

// What one thread needs to multiply; reused between calls, grown on demand.
struct ProductScratch {
  std::vector<std::byte> library;
  std::vector<uint16_t> narrow;
};

// W [N][K] in packed form. Immutable after `assign` and `prepare`; `multiply` is then thread-safe with one scratch a thread.
class PackedMatrix {
 public:
  struct Options {
    bool bf16 = false;         // products of bf16 inputs, sums in f32; ask bf16_products() first
    int threads = 1;           // for packing
    int64_t block_rows = 256;  // the row count of most products: the layout is chosen for it
  };
  PackedMatrix();
  PackedMatrix(PackedMatrix&&) noexcept;
  PackedMatrix& operator=(PackedMatrix&&) noexcept;
  ~PackedMatrix();

  // Expands and packs the ranges, stacked: N = sum of counts, K = cols of each. Memory of an earlier assign is reused.
  // Errors: kCorrupt (a weight that is not finite), kTooLarge, kUnsupported (the library refuses).
  Result<void> assign(std::span<const RowRange> parts, const std::string& path, const Options& options);
  // Makes the kernel for products of `rows` rows, with or without accumulation. Not thread-safe. Cost: under 1 ms.
  Result<void> prepare(int64_t rows, bool accumulate);
  // out [rows][N] = a [rows][K] W^T, or += with `accumulate`. One thread's work. Precondition: prepared.
  void multiply(const float* a, int64_t rows, bool accumulate, float* out, ProductScratch& scratch) const;

  int64_t outputs() const;  // N
  int64_t inputs() const;   // K
  int64_t bytes() const;    // of the packed form

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The processor multiplies bf16 natively and the library uses it.
bool bf16_products();

}  // namespace ropewalk
