// Benchmarks that check the answer first, and report what was reached as a fraction of the machine's own limit, measured in
// turns with the work in the same run: other processes and clock changes then act on both.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/control.h"
#include "ropewalk/error.h"

namespace ropewalk {

struct BenchRow {
  std::string name;
  nlohmann::json setup;  // the "case" of interface.md
  double median_ms = 0;
  int runs = 0;
  std::string unit;              // of value and limit: "GB/s", "GFLOP/s"
  double value = 0;              // from the median time
  double limit = 0;              // median of the limits measured beside it
  double fraction_of_limit = 0;  // median of the ratios, run by run
  bool checked = false;          // the answer was compared with the reference and is within the bound
  double tokens_per_second = 0;  // of models; 0 = not one
  double cost = 0;               // time over that of the same work without an encoding, median of turns; 0 = not compared
  int64_t memory = 0;            // bytes that the first call took beyond its inputs and output; 0 = not measured
  double error = 0;              // the largest relative error seen in that comparison
};
nlohmann::json to_json(const BenchRow& row);

// What was measured of the machine: "read_gb_per_s", "scale_gb_per_s", "f32_gflop_per_s", "bf16_gflop_per_s".
using BenchLimits = std::map<std::string, double>;

struct BenchReport {
  BenchLimits limits;
  std::vector<BenchRow> rows;
};

struct BenchOptions {
  int threads = 1;
  int min_runs = 5;
  int max_runs = 100;
  double min_seconds = 1;  // of measured work
  uint64_t seed = 0;
  int64_t memory_bytes = int64_t{512} << 20;  // what the memory limits are measured over; far beyond the caches
};

// A limit: runs its loop for a moment on all threads and returns the rate in GB/s or GFLOP/s.
struct Limit {
  std::string key;  // in BenchLimits
  std::string unit;
  std::function<double()> rate;
  std::function<bool()> check;  // the loop really does what its rate says
};
// Memory is taken here and kept by the Limit. Errors: kTooLarge.
Result<Limit> read_limit(const BenchOptions& options);   // bytes read
Result<Limit> scale_limit(const BenchOptions& options);  // bytes read and written back, in place
Limit f32_limit(const BenchOptions& options);
Limit bf16_limit(const BenchOptions& options);  // of the f32 unit where the processor has no bf16 dot product
bool has_native_bf16();

// Runs `limit` and `work` in turns: at least min_runs and min_seconds, at most max_runs; one unmeasured run before. `amount` is
// what one run of the work does, in 1e9 units of the limit (GB or GFLOP). Fills the row's figures and report.limits. Errors:
// kInterrupted, and those of `work`.
Result<void> measure(const BenchOptions& options, const Limit& limit, double amount, const std::function<Result<void>()>& work,
                     const Control& control, BenchRow& row, BenchReport& report);

double median(std::vector<double> values);  // 0 of none

}  // namespace ropewalk
