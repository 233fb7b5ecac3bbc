#include "workbench/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ropewalk {
namespace {

// The scores of a range of positions, window after window. A block of the bootstrap that straddles two windows is one of many.
std::vector<double> series(const Sample& sample, Bucket range) {
  std::vector<double> out;
  for (const auto& window : sample.windows) {
    const int64_t end = std::min<int64_t>(range.to, static_cast<int64_t>(window.size()));
    if (range.from < end) out.insert(out.end(), window.begin() + range.from, window.begin() + end);
  }
  return out;
}

std::vector<double> differences(const Sample& a, const Sample& b, Bucket range) {
  std::vector<double> out = series(b, range);
  const std::vector<double> base = series(a, range);
  for (size_t i = 0; i < out.size(); ++i) out[i] -= base[i];
  return out;
}

Interval interval_of(const std::vector<double>& values, const std::string& name, Bucket range, int64_t length, uint64_t seed,
                     double outer) {
  BootstrapOptions options;
  options.seed = seed;
  options.stream = fingerprint(fmt::format("{} {} {} {}", name, length, range.from, range.to));
  options.outer_spread = outer;
  return bootstrap_mean(values, options);
}

}  // namespace

std::vector<Bucket> buckets(int64_t length) {
  std::vector<Bucket> out;
  int64_t from = 0;
  for (int64_t edge = 1024; from < length - 1; edge *= 2) {
    const int64_t to = std::min(edge, length);
    out.push_back({from, to});
    from = to;
  }
  return out;
}

SettingRow summarize(const Sample& sample, const SummaryOptions& options) {
  SettingRow row;
  row.setting = sample.setting;
  row.length = sample.length;
  row.windows = static_cast<int64_t>(sample.windows.size());
  row.seconds = sample.seconds;
  row.pass_length = sample.pass_length;
  row.tokens_per_second = sample.seconds > 0 ? static_cast<double>(sample.pass_tokens) / sample.seconds : 0;
  const std::vector<double> all = series(sample, {0, sample.length});
  const double outer = spread(all);
  const std::vector<Bucket> ranges = buckets(sample.length);
  row.by_position.resize(ranges.size());
  parallel_for(options.threads, static_cast<int64_t>(ranges.size()) + 1, [&](int64_t i, int) {
    if (i == 0) {
      row.nll = interval_of(all, sample.setting, {0, sample.length}, sample.length, options.seed, outer);
      return;
    }
    const Bucket range = ranges[static_cast<size_t>(i - 1)];
    row.by_position[static_cast<size_t>(i - 1)] = {
        range, interval_of(series(sample, range), sample.setting, range, sample.length, options.seed, outer)};
  });
  row.tokens = row.nll.count;
  return row;
}

PairRow compare_range(const Sample& a, const Sample& b, Bucket bucket, uint64_t seed) {
  PairRow row{a.setting, b.setting, a.length, bucket, {}, Verdict::kTie};
  const std::vector<double> values = differences(a, b, bucket);
  const double outer = values.size() < 2 ? spread(differences(a, b, {0, a.length})) : 0;
  row.delta = interval_of(values, a.setting + " " + b.setting, bucket, a.length, seed, outer);
  row.verdict = verdict_of(row.delta);
  return row;
}

Interval range_mean(const Sample& sample, Bucket bucket, uint64_t seed) {
  return interval_of(series(sample, bucket), sample.setting, bucket, sample.length, seed,
                     spread(series(sample, {0, sample.length})));
}

std::vector<PairRow> compare(const Sample& a, const Sample& b, std::span<const Bucket> extra, const SummaryOptions& options) {
  std::vector<Bucket> ranges = {{0, a.length}};
  const auto add = [&](Bucket range) {
    if (std::find(ranges.begin(), ranges.end(), range) == ranges.end()) ranges.push_back(range);
  };
  for (const Bucket range : buckets(a.length)) add(range);
  for (const Bucket range : extra) {
    if (range.from < a.length - 1) add({range.from, std::min(range.to, a.length)});
  }
  std::vector<PairRow> rows(ranges.size());
  parallel_for(options.threads, static_cast<int64_t>(ranges.size()), [&](int64_t i, int) {
    rows[static_cast<size_t>(i)] = compare_range(a, b, ranges[static_cast<size_t>(i)], options.seed);
  });
  return rows;
}

Curve make_curve(const Sample& sample, const Sample* against, int64_t points) {
  Curve curve{sample.setting, against != nullptr ? against->setting : "", sample.length, {}};
  const int64_t scores = sample.length - 1;
  const int64_t step = std::max<int64_t>(1, (scores + points - 1) / points);
  const Bucket whole{0, sample.length};
  const std::vector<double> all = against != nullptr ? differences(*against, sample, whole) : series(sample, whole);
  if (all.empty()) return curve;
  // Standard errors as if tokens were independent, times what the dependence of the whole series costs.
  const Interval interval = bootstrap_mean(all, {.stream = fingerprint(sample.setting), .replicates = 400});
  const double naive = spread(all) / std::sqrt(static_cast<double>(all.size()));
  const double inflation = naive > 0 ? std::max(1.0, (interval.high - interval.low) / (2 * 1.96 * naive)) : 1;
  for (int64_t from = 0; from < scores; from += step) {
    const Bucket range{from, std::min(from + step, scores)};
    const std::vector<double> values = against != nullptr ? differences(*against, sample, range) : series(sample, range);
    double mean = 0;
    for (const double value : values) mean += value;
    mean /= static_cast<double>(values.size());
    const double sd = values.size() > 1 ? spread(values) : spread(all);
    curve.points.push_back({range.from, range.to, mean, inflation * sd / std::sqrt(static_cast<double>(values.size()))});
  }
  return curve;
}

}  // namespace ropewalk
