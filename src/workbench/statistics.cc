#include "workbench/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace ropewalk {
namespace {

constexpr double kNormal975 = 1.959963984540054;
constexpr int64_t kMostBlocks = 256;
constexpr int64_t kFewestBlocks = 6;

// 0.975 quantile of Student's t: Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5), within 0.1% from 4 degrees on.
double student_975(int64_t degrees) {
  constexpr std::array<double, 4> few = {12.7062, 4.3027, 3.1824, 2.7764};
  if (degrees <= 4) return few[static_cast<size_t>(std::max<int64_t>(degrees, 1) - 1)];
  const double z = kNormal975, v = static_cast<double>(degrees);
  const double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * v) + (5 * z5 + 16 * z3 + 3 * z) / (96 * v * v) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * v * v * v);
}

double mean_of(std::span<const double> x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

double autocovariance(std::span<const double> x, double mean, int64_t lag) {
  double sum = 0;
  const int64_t n = static_cast<int64_t>(x.size());
  for (int64_t i = 0; i + lag < n; ++i) sum += (x[i] - mean) * (x[i + lag] - mean);
  return sum / static_cast<double>(n);
}

}  // namespace

double spread(std::span<const double> series) {
  if (series.size() < 2) return 0;
  const double mean = mean_of(series);
  double sum = 0;
  for (const double value : series) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(series.size() - 1));
}

int64_t block_length(std::span<const double> series) {
  const int64_t n = static_cast<int64_t>(series.size());
  if (n < 2 * kFewestBlocks) return 1;
  const int64_t most = n / kFewestBlocks;
  const double mean = mean_of(series);
  const double variance = autocovariance(series, mean, 0);
  int64_t block = 1;
  if (variance > 0) {
    // m: the lag after which a run of autocorrelations is too small to tell from zero; the flat-top window reaches to 2m.
    const double dn = static_cast<double>(n);
    const int64_t run = std::max<int64_t>(5, static_cast<int64_t>(std::sqrt(std::log10(dn))));
    const int64_t last = std::min<int64_t>(n / 4, static_cast<int64_t>(std::ceil(std::sqrt(dn))) + run);
    const double small = 2 * std::sqrt(std::log10(dn) / dn);
    std::vector<double> covariance = {variance};
    int64_t m = 0, quiet = 0;
    for (int64_t lag = 1; lag <= last && quiet < run; ++lag) {
      covariance.push_back(autocovariance(series, mean, lag));
      if (std::abs(covariance.back() / variance) < small) {
        ++quiet;
      } else {
        quiet = 0;
        m = lag;
      }
    }
    const int64_t reach = std::max<int64_t>(2 * m, 1);
    double g = 0, sum = variance;  // g = sum |k| R(k), sum = sum R(k): both over positive and negative lags
    for (int64_t lag = 1; lag <= reach && lag <= n / 2; ++lag) {
      while (static_cast<int64_t>(covariance.size()) <= lag) {
        covariance.push_back(autocovariance(series, mean, static_cast<int64_t>(covariance.size())));
      }
      const double t = static_cast<double>(lag) / static_cast<double>(reach);
      const double weight = t <= 0.5 ? 1 : 2 * (1 - t);
      g += 2 * weight * static_cast<double>(lag) * covariance[static_cast<size_t>(lag)];
      sum += 2 * weight * covariance[static_cast<size_t>(lag)];
    }
    if (sum > 0) {
      const double optimal = std::cbrt(2 * g * g / (4.0 / 3.0 * sum * sum) * dn);
      block = optimal < static_cast<double>(most) ? static_cast<int64_t>(std::ceil(optimal)) : most;
    } else {
      block = most;
    }
  }
  return std::clamp<int64_t>(block, std::min(most, std::max<int64_t>(1, (n + kMostBlocks - 1) / kMostBlocks)), most);
}

Interval bootstrap_mean(std::span<const double> series, const BootstrapOptions& options) {
  Interval out;
  const int64_t n = static_cast<int64_t>(series.size());
  out.count = n;
  if (n == 0) return out;
  out.mean = out.low = out.high = mean_of(series);
  if (n < 2) {
    out.low -= kNormal975 * options.outer_spread;
    out.high += kNormal975 * options.outer_spread;
    return out;
  }
  const int64_t block = block_length(series);
  out.block = block;
  // Sums of blocks of a ring from prefix sums about the mean (no cancellation of large prefixes).
  std::vector<double> prefix(static_cast<size_t>(n + block + 1));
  for (int64_t i = 0; i < n + block; ++i)
    prefix[static_cast<size_t>(i + 1)] = prefix[static_cast<size_t>(i)] + (series[i % n] - out.mean);
  const int64_t blocks = (n + block - 1) / block;
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32)};
  std::vector<double> means(static_cast<size_t>(options.replicates));
  uint64_t counter = 0;
  std::array<uint32_t, 4> draws{};
  int used = 4;
  for (double& replicate : means) {
    double sum = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      if (used == 4) {
        draws = philox4x32({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                            static_cast<uint32_t>(options.stream), static_cast<uint32_t>(options.stream >> 32)},
                           key);
        ++counter;
        used = 0;
      }
      // A product and a shift instead of a remainder: the bias is n / 2^32.
      const auto start =
          static_cast<size_t>((static_cast<uint64_t>(draws[static_cast<size_t>(used++)]) * static_cast<uint64_t>(n)) >> 32);
      const int64_t take = std::min(block, n - b * block);
      sum += prefix[start + static_cast<size_t>(take)] - prefix[start];
    }
    replicate = sum / static_cast<double>(n);
  }
  const auto quantile = [&](double p) {
    const auto at = means.begin() + std::llround(p * static_cast<double>(means.size() - 1));
    std::nth_element(means.begin(), at, means.end());
    return *at;
  };
  const double k = static_cast<double>(std::max<int64_t>(blocks, 2));
  const double widen = std::sqrt(k / (k - 1)) * student_975(static_cast<int64_t>(k) - 1) / kNormal975;
  out.low = out.mean + widen * std::min(0.0, quantile(0.025));
  out.high = out.mean + widen * std::max(0.0, quantile(0.975));
  return out;
}

const char* to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kBetter: return "better";
    case Verdict::kWorse: return "worse";
    case Verdict::kTie: break;
  }
  return "tie";
}

Verdict verdict_of(const Interval& delta) noexcept {
  if (delta.high < 0) return Verdict::kBetter;
  if (delta.low > 0) return Verdict::kWorse;
  return Verdict::kTie;
}

uint64_t fingerprint(std::string_view bytes, uint64_t hash) noexcept {
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

}  // namespace ropewalk
