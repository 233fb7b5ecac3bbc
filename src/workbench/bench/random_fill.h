// Inputs for benchmarks: random enough for kernels, quick to make, first touched by the threads that will use them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.h"
#include "base/parallel.h"
#include "base/random.h"
#include "ropewalk/dtype.h"

namespace ropewalk {

// A tensor of any dtype.
struct BenchTensor {
  AlignedBuffer<std::byte> bytes;
  DType dtype = DType::kF32;

  double at(int64_t i) const {
    const std::byte* data = bytes.data();
    switch (dtype) {
      case DType::kF16: return static_cast<double>(to_f32(reinterpret_cast<const f16_t*>(data)[i]));
      case DType::kBF16: return static_cast<double>(to_f32(reinterpret_cast<const bf16_t*>(data)[i]));
      case DType::kF32: break;
    }
    return static_cast<double>(reinterpret_cast<const float*>(data)[i]);
  }
};

// `count` values of mean 0 and variance 1, from (seed, stream). A pattern of prime length repeats: no two heads or tokens are
// aligned with it, and 500 MB are made in the time of writing them. Errors: kTooLarge.
inline Result<BenchTensor> random_tensor(DType dtype, int64_t count, uint64_t seed, uint64_t stream, Threads threads) {
  constexpr int64_t kPeriod = 65521;
  Random random(seed, stream);
  std::vector<float> pattern(kPeriod);
  for (float& x : pattern) x = static_cast<float>(random.normal());
  BenchTensor tensor;
  tensor.dtype = dtype;
  ROPEWALK_TRY(tensor.bytes, AlignedBuffer<std::byte>::make(count * static_cast<int64_t>(size_of(dtype))));
  parallel_ranges(threads, count, 4096, [&](int64_t begin, int64_t end, int) {
    std::byte* data = tensor.bytes.data();
    for (int64_t i = begin, p = begin % kPeriod; i < end; ++i, p = p + 1 == kPeriod ? 0 : p + 1) {
      const float x = pattern[static_cast<size_t>(p)];
      switch (dtype) {
        case DType::kF32: reinterpret_cast<float*>(data)[i] = x; break;
        case DType::kF16: reinterpret_cast<f16_t*>(data)[i] = to_f16(x); break;
        case DType::kBF16: reinterpret_cast<bf16_t*>(data)[i] = to_bf16(x); break;
      }
    }
  });
  return tensor;
}

}  // namespace ropewalk
