#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/fail.h"
#include "workbench/bench/cases.h"
#include "workbench/bench/random_fill.h"

namespace ropewalk {
namespace {

const char* name_of(Pairing pairing) { return pairing == Pairing::kHalves ? "halves" : "interleaved"; }

struct Shape {
  int64_t tokens;
  int heads, dim;
  int64_t index(int64_t token, int head, int i) const { return (token * heads + head) * dim + i; }
};

// The largest error of the sampled tokens, relative to the length of the rotated pair. The angle is formed and reduced in long
// double (64 bits of significand): for positions below 2^21 its error is below 2^-43 rad, far under what is checked.
double worst_error(const RotarySchedule& schedule, const Shape& shape, int64_t first_position,
                   const std::vector<int64_t>& sampled, const std::vector<double>& before, const BenchTensor& after) {
  double worst = 0;
  const int planes = static_cast<int>(schedule.inv_freq.size());
  for (size_t s = 0; s < sampled.size(); ++s) {
    for (int head = 0; head < shape.heads; ++head) {
      const double* x =
          before.data() + (s * static_cast<size_t>(shape.heads) + static_cast<size_t>(head)) * static_cast<size_t>(shape.dim);
      for (int i = 0; i < planes; ++i) {
        const int a = schedule.pairing == Pairing::kHalves ? i : 2 * i;
        const int b = schedule.pairing == Pairing::kHalves ? i + planes : 2 * i + 1;
        const long double angle = static_cast<long double>(first_position + sampled[s]) *
                                  static_cast<long double>(schedule.inv_freq[static_cast<size_t>(i)]);
        const double c = static_cast<double>(std::cos(angle)), n = static_cast<double>(std::sin(angle));
        const double error_a = after.at(shape.index(sampled[s], head, a)) - (x[a] * c - x[b] * n);
        const double error_b = after.at(shape.index(sampled[s], head, b)) - (x[a] * n + x[b] * c);
        worst = std::max(worst, std::hypot(error_a, error_b) / std::max(std::hypot(x[a], x[b]), 0x1p-12));
      }
      for (int i = 2 * planes; i < shape.dim; ++i) {
        if (after.at(shape.index(sampled[s], head, i)) != x[i]) worst = 1;  // not rotated: untouched
      }
    }
  }
  return worst;
}

// In units of the pair's length: cos and sin are within 1 ulp (2^-23 below 1), each product and the sum round once (2^-24). For
// the two components together that stays below 8 x 2^-24. The result then rounds once to dtype: at most 2^-8 (bf16, 8 bits of
// significand) or 2^-11 (f16) of the pair's length; f16's absolute step below 2^-14 is 2^-25, which the second term covers for
// every pair longer than 2^-12.
double error_bound(DType dtype) {
  const double f32 = 8 * 0x1p-24;
  return dtype == DType::kF32 ? f32 : dtype == DType::kF16 ? f32 + 0x1.1p-11 : f32 + 0x1p-8;
}

Result<BenchRow> bench_one(const RopeBench& setup, DType dtype, Pairing pairing, const Limit& limit,
                           const BenchOptions& options, const Control& control, BenchReport& report) {
  const int rotary_dim = setup.rotary_dim == 0 ? setup.head_dim : setup.rotary_dim;
  ROPEWALK_TRY(const RotarySchedule schedule, make_rotary_schedule(10000, rotary_dim, setup.head_dim, pairing));
  const int64_t token_bytes = int64_t{setup.heads} * setup.head_dim * static_cast<int64_t>(size_of(dtype));
  const Shape shape{std::max<int64_t>(1, setup.bytes / token_bytes), setup.heads, setup.head_dim};

  const Threads threads{options.threads};
  const int64_t count = shape.tokens * shape.heads * shape.dim;
  ROPEWALK_TRY(BenchTensor x, random_tensor(dtype, count, options.seed, 1, threads));
  std::vector<int64_t> positions(static_cast<size_t>(shape.tokens));
  std::iota(positions.begin(), positions.end(), setup.first_position);
  ROPEWALK_TRY(const RotaryTable table, make_rotary_table(schedule, positions));
  HeadsView view{x.bytes.data(), dtype, shape.tokens, shape.heads, shape.dim, int64_t{shape.heads} * shape.dim, shape.dim};

  BenchRow row;
  row.name = "rope";
  row.setup = {{"tokens", shape.tokens},
               {"heads", shape.heads},
               {"head_dim", shape.dim},
               {"rotary_dim", rotary_dim},
               {"dtype", to_string(dtype)},
               {"pairing", name_of(pairing)},
               {"bytes", shape.tokens * token_bytes},
               {"threads", options.threads}};

  std::vector<int64_t> sampled = {0, shape.tokens / 3, shape.tokens / 2, shape.tokens - 1};
  std::vector<double> before;
  for (const int64_t token : sampled) {
    for (int64_t i = 0; i < int64_t{shape.heads} * shape.dim; ++i) before.push_back(x.at(shape.index(token, 0, 0) + i));
  }
  ROPEWALK_CHECK_OK(rotate(schedule, table, view, view, options.threads));
  row.error = worst_error(schedule, shape, setup.first_position, sampled, before, x);
  row.checked = row.error <= error_bound(dtype);

  // Turning in place again and again keeps every length, so the values stay normal.
  const double giga_bytes = 2 * static_cast<double>(shape.tokens * token_bytes) / 1e9;
  ROPEWALK_CHECK_OK(measure(
      options, limit, giga_bytes, [&] { return rotate(schedule, table, view, view, options.threads); }, control, row, report));
  return row;
}

}  // namespace

Result<BenchReport> bench_rope(const RopeBench& setup, const BenchOptions& options, const Control& control) {
  BenchReport report;
  ROPEWALK_TRY(const Limit limit, scale_limit(options));
  for (const DType dtype : setup.dtypes) {
    for (const Pairing pairing : setup.pairings) {
      ROPEWALK_TRY(BenchRow row, bench_one(setup, dtype, pairing, limit, options, control, report));
      report.rows.push_back(std::move(row));
    }
  }
  return report;
}

}  // namespace ropewalk
