// Rotation of 512 MiB in place (cold: nothing of it is in a cache) beside the in-place scale of the same memory, its limit.
//
//     ropewalk_bench --benchmark_filter=InPlace --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "base/aligned.h"
#include "base/parallel.h"
#include "simd/rotate.h"
#include "simd/sincos.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/rotate_bench.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ropewalk::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void scale(float* x, int64_t n, float by) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, by);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), factor), d, x + i);
}

}  // namespace ropewalk::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropewalk::simd {
namespace {
HWY_EXPORT(scale);

constexpr int64_t kBytes = int64_t{512} << 20;
constexpr int kHeads = 32, kDim = 128;

std::byte* memory() {
  static AlignedBuffer<std::byte> buffer = [] {
    auto b = AlignedBuffer<std::byte>::make(kBytes).value();
    parallel_ranges({available_cores()}, kBytes, 1 << 20, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) b.data()[i] = std::byte{0};
    });
    return b;
  }();
  return buffer.data();
}

void finish(benchmark::State& state) { state.SetBytesProcessed(2 * kBytes * state.iterations()); }  // read and written

void BM_InPlaceScale(benchmark::State& state) {
  auto* x = reinterpret_cast<float*>(memory());
  for (auto _ : state) {
    parallel_ranges({available_cores()}, kBytes / 4, 1 << 16, [&](int64_t begin, int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(scale)(x + begin, end - begin, 1.5F);
    });
  }
  finish(state);
}
BENCHMARK(BM_InPlaceScale)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_InPlaceRotate(benchmark::State& state) {
  RotateArgs args;
  args.x = args.out = memory();
  args.dtype = static_cast<DType>(state.range(0));
  args.interleaved = state.range(1) != 0;
  args.heads = static_cast<int>(state.range(2));
  args.dim = kDim;
  args.planes = kDim / 2;
  args.x_head_stride = args.out_head_stride = kDim;
  args.x_token_stride = args.out_token_stride = int64_t{args.heads} * kDim;
  const int64_t tokens = kBytes / static_cast<int64_t>(size_of(args.dtype)) / args.x_token_stride;
  const std::vector<float> cos(static_cast<size_t>(tokens * args.planes), 0.8F), sin(cos.size(), 0.6F);
  args.cos = cos.data();
  args.sin = sin.data();
  for (auto _ : state) {
    parallel_ranges({available_cores()}, tokens, 4, [&](int64_t begin, int64_t end, int) { rotate_tokens(args, begin, end); });
  }
  state.SetLabel(std::string(to_string(args.dtype)) + (args.interleaved ? " interleaved" : " halves"));
  finish(state);
}
BENCHMARK(BM_InPlaceRotate)->ArgsProduct({{0, 1, 2}, {0, 1}, {kHeads}})->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_SincosTable(benchmark::State& state) {
  constexpr int64_t kPlanes = 64;
  std::vector<double> m(kPlanes, 1048575), f(kPlanes, 0.123);
  std::vector<float> cos(kPlanes), sin(kPlanes);
  for (auto _ : state) {
    sincos_products(m.data(), f.data(), kPlanes, 1.0, cos.data(), sin.data());
    benchmark::DoNotOptimize(cos.data());
  }
  state.SetItemsProcessed(kPlanes * state.iterations());
}
BENCHMARK(BM_SincosTable);

}  // namespace
}  // namespace ropewalk::simd
#endif
