// Sandwich (Chi et al. 2023, arXiv:2212.10356, equation 2): the inner product of two sinusoidal encodings, made a bias.
#include <algorithm>
#include <cmath>
#include <vector>

#include "encodings/distance_cache.h"
#include "encodings/registry.h"

namespace ropewalk {
namespace {

class Sandwich : public DistanceTerm {
 public:
  Sandwich(int dims, double compression) : dims_(dims), compression_(compression) {}
  // Seldom-used distances beyond the cache are summed where they are met.
  Result<void> prepare(int64_t least, int64_t largest) const override {
    if (largest - least >= kMost / 2) return {};
    return sums_.prepare("sandwich", least, largest, 256, [this](int64_t first, int64_t count, double* to) {
      sum(first, {to, static_cast<size_t>(count)});
    });
  }
  // p_m . p_n = sum_i cos(d / 10000^(2i/dims)) over dims/2 planes; minus its largest value, and divided by the head's ratio.
  void fill(int head, int heads, int64_t first, std::span<double> out) const override {
    const double ratio = compression_ * (head + 1) / heads;
    const double* known = sums_.find(first, first + static_cast<int64_t>(out.size()) - 1);
    if (known != nullptr) {
      std::copy_n(known, out.size(), out.begin());
    } else {
      sum(first, out);
    }
    for (double& bias : out) bias /= ratio;
  }

 private:
  static constexpr int64_t kMost = int64_t{1} << 26;
  // One sum for all heads.
  void sum(int64_t first, std::span<double> out) const {
    const int planes = dims_ / 2;
    for (double& bias : out) bias = -planes;
    for (int i = 0; i < planes; ++i) {
      const double frequency = std::pow(10000.0, -2.0 * i / dims_);
      for (size_t j = 0; j < out.size(); ++j)
        out[j] += std::cos(static_cast<double>(first + static_cast<int64_t>(j)) * frequency);
    }
  }

  int dims_;
  double compression_;
  DistanceCache<double> sums_{1, kMost};
};

}  // namespace

const EncodingEntry& encoding_sandwich() {
  static const EncodingEntry entry = {
      .info =
          {.name = "sandwich",
           .title = "Sandwich",
           .family = "relative",
           .formula = "b_h(d) = (sum_i cos(d / 10000^(2i/dims)) - dims/2) * H / (compression (h+1)), i < dims/2",
           .summary =
               "What is left of the sinusoidal encoding's inner product when the cross terms are dropped: a bias that falls "
               "roughly like a logarithm, without learned numbers.",
           .source = "Chi et al. 2023, arXiv:2212.10356",
           .cost = "a table of H by T + S floats a call, dims/2 cosines each",
           .parameters = {{"dims", "width of the sinusoidal encoding", 128, 2, 8192, true},
                          {"compression", "ratio of the last head: larger is flatter", 8, 1e-3, 1e6, false}},
           .points = {.score = true},
           .shift_invariant = true},
      .make = [](const EncodingArguments& arguments, const EncodingContext&,
                 const EncodingTables&) -> Result<PositionEncoding> {
        PositionEncoding encoding;
        encoding.score = std::make_shared<Sandwich>(static_cast<int>(arguments.whole("dims")), arguments["compression"]);
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
