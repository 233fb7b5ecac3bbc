// Intervals for means of dependent series: losses of neighbouring tokens are alike, so a plain standard error is too small.
// Decisions and coverage: docs/design/0030-intervals.md.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ropewalk {

// The mean of a series and its 95% interval. All numbers are finite.
struct Interval {
  double mean = 0, low = 0, high = 0;
  int64_t count = 0;  // terms in the mean
  int64_t block = 1;  // block length that was used
};

struct BootstrapOptions {
  uint64_t seed = 0;
  uint64_t stream = 0;  // one a row of a table, so that a row's interval does not depend on the other rows
  int replicates = 1000;
  // The spread (standard deviation) of a longer series that this one belongs to; used where it has fewer than 2 terms.
  double outer_spread = 0;
};

// Block length for the mean of a dependent series: Politis and White 2004, with the correction of Patton, Politis and White
// 2009, for the circular block bootstrap; at least n/256 (more blocks cost time and say nothing new), at most n/6.
int64_t block_length(std::span<const double> series);

// Circular block bootstrap of the mean (Politis and Romano 1992), widened by sqrt(k/(k-1)) and Student's t on k-1 degrees of
// freedom, k = blocks in the series, because few blocks give intervals that are too short. Deterministic in (seed, stream).
// Cost: about replicates * min(n / block, 256) draws, a few milliseconds.
Interval bootstrap_mean(std::span<const double> series, const BootstrapOptions& options);

double spread(std::span<const double> series);  // standard deviation (n - 1), 0 for fewer than 2 terms

enum class Verdict { kBetter, kWorse, kTie };
const char* to_string(Verdict verdict) noexcept;  // "better", "worse", "tie"
// For a difference of losses b - a: b is better when the whole interval lies below zero, a tie when it holds zero.
Verdict verdict_of(const Interval& delta) noexcept;

// FNV-1a, 64 bits: names streams and texts. Not a cryptographic checksum.
uint64_t fingerprint(std::string_view bytes, uint64_t start = 0xcbf29ce484222325u) noexcept;

}  // namespace ropewalk
