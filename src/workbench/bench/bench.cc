#include "workbench/bench/bench.h"

#include <algorithm>
#include <chrono>

#include "base/fail.h"

namespace ropewalk {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

nlohmann::json to_json(const BenchRow& row) {
  nlohmann::json json = {{"name", row.name},           {"case", row.setup},
                         {"median_ms", row.median_ms}, {"runs", row.runs},
                         {"unit", row.unit},           {"value", row.value},
                         {"limit", row.limit},         {"fraction_of_limit", row.fraction_of_limit},
                         {"checked", row.checked},     {"error", row.error}};
  if (row.tokens_per_second > 0) json["tokens_per_second"] = row.tokens_per_second;
  if (row.cost > 0) json["cost_over_plain"] = row.cost;
  if (row.memory > 0) json["memory_bytes"] = row.memory;
  return json;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Result<void> measure(const BenchOptions& options, const Limit& limit, double amount, const std::function<Result<void>()>& work,
                     const Control& control, BenchRow& row, BenchReport& report) {
  std::vector<double> seconds, limits, ratios;
  double spent = 0;
  for (int run = -1; run < options.max_runs && (run < options.min_runs || spent < options.min_seconds); ++run) {
    if (control.stopped()) return fail(ErrorCode::kInterrupted, "[bench] {}: stopped after {} runs", row.name, seconds.size());
    const double peak = limit.rate();
    const auto start = Clock::now();
    ROPEWALK_CHECK_OK(work());
    const double taken = std::max(seconds_since(start), 1e-9);
    if (run < 0) continue;  // warms caches, threads and clocks
    spent += taken;
    seconds.push_back(taken);
    limits.push_back(peak);
    ratios.push_back(amount / taken / peak);
    if (control.progress) control.progress(std::min(spent, options.min_seconds), options.min_seconds);
  }
  row.runs = static_cast<int>(seconds.size());
  row.median_ms = median(seconds) * 1e3;
  row.unit = limit.unit;
  row.value = amount / median(seconds);
  row.limit = median(limits);
  row.fraction_of_limit = median(ratios);
  report.limits[limit.key] = row.limit;
  return {};
}

}  // namespace ropewalk
