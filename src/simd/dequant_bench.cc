// Expansion of stored blocks, from cache to cache: bytes written a second. dequant_test.cc checks the results.
#include "simd/dequant.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace ropewalk::simd {
namespace {

constexpr int64_t kElements = 16384;  // 64 KB of output, as a row block of a product

void run(benchmark::State& state, void (*expand)(const std::byte*, int64_t, float*) noexcept, int64_t elements, int64_t bytes) {
  const int64_t blocks = kElements / elements;
  std::vector<std::byte> data(static_cast<size_t>(blocks * bytes), std::byte{0x35});
  std::vector<float> out(kElements);
  for (auto _ : state) {
    expand(data.data(), blocks, out.data());
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kElements * static_cast<int64_t>(sizeof(float)));
}

#define ROPEWALK_BENCH_DEQUANT(format, elements, bytes) BENCHMARK_CAPTURE(run, format, dequant_##format, elements, bytes)
ROPEWALK_BENCH_DEQUANT(f16, 1, 2);
ROPEWALK_BENCH_DEQUANT(bf16, 1, 2);
ROPEWALK_BENCH_DEQUANT(q4_0, 32, 18);
ROPEWALK_BENCH_DEQUANT(q4_1, 32, 20);
ROPEWALK_BENCH_DEQUANT(q5_0, 32, 22);
ROPEWALK_BENCH_DEQUANT(q5_1, 32, 24);
ROPEWALK_BENCH_DEQUANT(q8_0, 32, 34);
ROPEWALK_BENCH_DEQUANT(q2_k, 256, 84);
ROPEWALK_BENCH_DEQUANT(q3_k, 256, 110);
ROPEWALK_BENCH_DEQUANT(q4_k, 256, 144);
ROPEWALK_BENCH_DEQUANT(q5_k, 256, 176);
ROPEWALK_BENCH_DEQUANT(q6_k, 256, 210);
ROPEWALK_BENCH_DEQUANT(iq4_nl, 32, 18);
ROPEWALK_BENCH_DEQUANT(iq4_xs, 256, 136);

}  // namespace
}  // namespace ropewalk::simd
