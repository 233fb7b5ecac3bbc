// The machine's limits on all threads, and the benchmarks "stream" and "peak", which are these limits themselves.
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned.h"
#include "base/fail.h"
#include "base/parallel.h"
#include "simd/limits.h"
#include "simd/targets.h"
#include "workbench/bench/bench.h"
#include "workbench/bench/cases.h"

namespace ropewalk {
namespace {

using Clock = std::chrono::steady_clock;

// A block a thread, whole groups of 256 floats, each first touched by the thread that will use it.
class Blocks {
 public:
  static Result<std::shared_ptr<Blocks>> make(const BenchOptions& options) {
    auto blocks = std::make_shared<Blocks>();
    blocks->threads_ = {options.threads};
    const int64_t each = options.memory_bytes / int64_t{sizeof(float)} / options.threads / 256 * 256;
    if (each <= 0) {
      return fail(ErrorCode::kInvalidArgument, "[bench] expected at least {} bytes for {} threads, but got {}",
                  1024 * options.threads, options.threads, options.memory_bytes);
    }
    ROPEWALK_TRY(blocks->memory_, AlignedBuffer<float>::make(each * options.threads));
    blocks->each_ = each;
    blocks->run([](std::span<float> block) {
      for (size_t i = 0; i < block.size(); ++i) block[i] = 1.0F + static_cast<float>(i % 1021);
    });
    return blocks;
  }

  template <class Body>
  void run(const Body& body) {
    parallel_for(threads_, threads_.count, [&](int64_t i, int) {
      body(memory_.span().subspan(static_cast<size_t>(i * each_), static_cast<size_t>(each_)));
    });
  }
  double giga_bytes() const { return static_cast<double>(memory_.size()) * sizeof(float) / 1e9; }
  std::span<const float> values() const { return memory_.span(); }

 private:
  AlignedBuffer<float> memory_;
  int64_t each_ = 0;
  Threads threads_;
};

template <class Work>
double seconds(const Work& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Rate of a loop on registers, from runs of about 20 ms.
double register_rate(int threads, double (*loop)(int64_t, float&)) {
  constexpr int64_t kRounds = 1'000'000;
  std::atomic<double> total{0};
  const double taken = seconds([&] {
    parallel_for({threads}, threads, [&](int64_t, int) {
      float sink = 0;
      double operations = 0;
      const auto start = Clock::now();
      while (std::chrono::duration<double>(Clock::now() - start).count() < 0.02) operations += loop(kRounds, sink);
      for (double seen = total.load(); !total.compare_exchange_weak(seen, seen + operations);) {
      }
    });
  });
  return total.load() / taken / 1e9;
}

// The rows of "stream" and "peak" are limits: their limit is the best run, so the fraction tells how steady the machine is.
Result<void> add_limit_row(const BenchOptions& options, const Limit& limit, std::string name, double amount,
                           const Control& control, BenchReport& report) {
  BenchRow row;
  row.name = std::move(name);
  row.setup = {{"threads", options.threads}};
  std::vector<double> rates;
  double spent = 0;
  for (int run = -1; run < options.max_runs && (run < options.min_runs || spent < options.min_seconds); ++run) {
    if (control.stopped()) return fail(ErrorCode::kInterrupted, "[bench] {}: stopped after {} runs", row.name, rates.size());
    double rate = 0;
    const double taken = seconds([&] { rate = limit.rate(); });
    if (run < 0) continue;
    spent += taken;
    rates.push_back(rate);
    if (control.progress) control.progress(std::min(spent, options.min_seconds), options.min_seconds);
  }
  row.runs = static_cast<int>(rates.size());
  row.unit = limit.unit;
  row.value = median(rates);
  row.limit = *std::max_element(rates.begin(), rates.end());
  row.fraction_of_limit = row.value / row.limit;
  row.median_ms = amount > 0 ? amount / row.value * 1e3 : 1e3 * spent / row.runs;
  row.checked = limit.check();
  if (!row.checked)
    return fail(ErrorCode::kCorrupt, "[bench] {}: the loop that measures this limit computed a wrong result", row.name);
  report.limits[limit.key] = row.value;
  report.rows.push_back(std::move(row));
  return {};
}

}  // namespace

bool has_native_bf16() { return !bf16_units().empty(); }

Result<Limit> read_limit(const BenchOptions& options) {
  ROPEWALK_TRY(const std::shared_ptr<Blocks> blocks, Blocks::make(options));
  const auto read = [blocks] {
    std::atomic<uint32_t> all{0};
    blocks->run([&](std::span<float> block) { all ^= read_all(block); });
    return all.load();
  };
  return Limit{"read_gb_per_s", "GB/s", [blocks, read] { return blocks->giga_bytes() / seconds(read); },
               [blocks, read] {
                 uint32_t all = 0;
                 for (const float x : blocks->values()) all ^= std::bit_cast<uint32_t>(x);
                 return read() == all;
               }};
}

Result<Limit> scale_limit(const BenchOptions& options) {
  ROPEWALK_TRY(const std::shared_ptr<Blocks> blocks, Blocks::make(options));
  const auto scale = [blocks](float factor) { blocks->run([=](std::span<float> block) { scale_in_place(block, factor); }); };
  // Doubled and halved in turns, so that the values stay exact and finite.
  const auto up = std::make_shared<bool>(false);
  return Limit{"scale_gb_per_s", "GB/s",
               [=] {
                 const float factor = (*up = !*up) ? 2.0F : 0.5F;
                 return 2 * blocks->giga_bytes() / seconds([&] { scale(factor); });
               },
               [=] {
                 const std::vector<float> before(blocks->values().begin(), blocks->values().end());
                 scale(4.0F);
                 const bool right = std::equal(before.begin(), before.end(), blocks->values().begin(),
                                               [](float old, float now) { return now == 4 * old; });
                 scale(0.25F);
                 return right;
               }};
}

Limit f32_limit(const BenchOptions& options) {
  return {"f32_gflop_per_s", "GFLOP/s", [threads = options.threads] { return register_rate(threads, multiply_add_f32); },
          [] {
            float sum = 0;
            const double lanes = multiply_add_f32(1000, sum) / 24 / 1000;
            const double limit = 24 * (0.5 + 0.001 * lanes);
            // 12 values of f32 summed in f32, each at the fixed point of a map that halves errors: a few ulp.
            return std::abs(static_cast<double>(sum) - limit) < 16 * 6e-8 * limit;
          }};
}

namespace {

Limit unit_limit(const BenchOptions& options, const Bf16Unit& unit, std::string key) {
  return {std::move(key), "GFLOP/s", [threads = options.threads, unit] { return register_rate(threads, unit.run); },
          [unit] {
            float sum = 0;
            return unit.run(1000, sum) == 1000 * unit.operations && sum == 1000 * unit.sum;
          }};
}

}  // namespace

Limit bf16_limit(const BenchOptions& options) {
  return has_native_bf16() ? unit_limit(options, bf16_units().front(), "bf16_gflop_per_s") : f32_limit(options);
}

Result<BenchReport> bench_stream(const BenchOptions& options, const Control& control) {
  BenchReport report;
  const double giga_bytes = static_cast<double>(options.memory_bytes) / 1e9;
  {
    ROPEWALK_TRY(const Limit read, read_limit(options));
    ROPEWALK_CHECK_OK(add_limit_row(options, read, "read", giga_bytes, control, report));
  }
  ROPEWALK_TRY(const Limit scale, scale_limit(options));
  ROPEWALK_CHECK_OK(add_limit_row(options, scale, "scale", 2 * giga_bytes, control, report));
  for (BenchRow& row : report.rows) row.setup["bytes"] = options.memory_bytes;
  return report;
}

Result<BenchReport> bench_peak(const BenchOptions& options, const Control& control) {
  BenchReport report;
  ROPEWALK_CHECK_OK(add_limit_row(options, f32_limit(options), "f32", 0, control, report));
  for (const Bf16Unit& unit : bf16_units()) {
    const bool first = &unit == &bf16_units().front();
    const std::string key = first ? "bf16_gflop_per_s" : fmt::format("{}_gflop_per_s", unit.instruction);
    ROPEWALK_CHECK_OK(add_limit_row(options, unit_limit(options, unit, key), "bf16", 0, control, report));
    report.rows.back().setup["instruction"] = unit.instruction;
  }
  for (BenchRow& row : report.rows) row.setup["simd"] = simd_target_in_use();
  return report;
}

}  // namespace ropewalk
