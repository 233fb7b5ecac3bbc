// From losses a token to rows of a table: by setting, length and range of positions, with intervals and paired differences.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "workbench/measure.h"
#include "workbench/statistics.h"

namespace ropewalk {

struct Bucket {
  int64_t from = 0, to = 0;  // predicting positions [from, to); 0 = the prediction made at the first token
  auto operator<=>(const Bucket&) const = default;
};
// 0, 1024, 2048, 4096, ... and the length: ranges that hold at least one score of a window of this length (which has length -
// 1).
std::vector<Bucket> buckets(int64_t length);

struct BucketRow {
  Bucket bucket;
  Interval nll;
};

// One setting at one length, over all windows; every token weighs the same.
struct SettingRow {
  std::string setting;
  int64_t length = 0;
  int64_t windows = 0;
  int64_t tokens = 0;  // scores
  Interval nll;
  double seconds = 0;  // of the passes behind it
  double tokens_per_second = 0;
  int64_t pass_length = 0;  // longer than `length` where longer passes were shared
  std::vector<BucketRow> by_position;
};

// b against a on the same tokens: delta = nll(b) - nll(a).
struct PairRow {
  std::string a, b;
  int64_t length = 0;
  Bucket bucket;
  Interval delta;
  Verdict verdict = Verdict::kTie;
};

// A curve for a picture: means over equal ranges of positions, with the standard error of each.
struct CurvePoint {
  int64_t from = 0, to = 0;
  double mean = 0, error = 0;
};
struct Curve {
  std::string setting;
  std::string against;  // empty: the loss itself; else the paired difference from this setting
  int64_t length = 0;
  std::vector<CurvePoint> points;
};

// The scores of a setting at a set of windows.
struct Sample {
  std::string setting;
  int64_t length = 0;
  std::vector<std::vector<double>> windows;  // each [length - 1]
  double seconds = 0;
  int64_t pass_tokens = 0, pass_length = 0;
};

struct SummaryOptions {
  uint64_t seed = 0;
  Threads threads;
};

SettingRow summarize(const Sample& sample, const SummaryOptions& options);
// Overall first, then every bucket; `extra` adds further ranges. Precondition: equal length and windows.
std::vector<PairRow> compare(const Sample& a, const Sample& b, std::span<const Bucket> extra, const SummaryOptions& options);
// One range only.
PairRow compare_range(const Sample& a, const Sample& b, Bucket bucket, uint64_t seed);
Interval range_mean(const Sample& sample, Bucket bucket, uint64_t seed);
// `against` may be null.
Curve make_curve(const Sample& sample, const Sample* against, int64_t points);

}  // namespace ropewalk
