// FIRE: a small network of a normalised distance (Li et al. 2023, arXiv:2310.04418, equation 4 and the code of appendix E).
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "base/fail.h"
#include "encodings/distance_cache.h"
#include "encodings/registry.h"
#include "simd/ops.h"

namespace ropewalk {
namespace {

constexpr int kHidden = 32;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// b_h(m, n) = w2_h . relu(w1 z + b1) + b2_h is piecewise linear in z = psi(d) / psi(max(m, L)), psi(x) = ln(c x + 1), so each
// head keeps its pieces: a search among at most 33 instead of 32 hidden units.
struct Piece {
  double from, slope, offset;  // for z >= from
};

struct Network {
  std::vector<float> w1, b1, w2;  // [kHidden], [kHidden], [H][kHidden]
};

class Fire : public PairTerm {
 public:
  Fire(double c, double threshold, Network network, std::vector<std::vector<Piece>> pieces)
      : c_(c),
        threshold_(std::abs(threshold)),
        negative_threshold_(threshold < 0),
        network_(std::move(network)),
        pieces_(std::move(pieces)) {
    for (size_t i = 1; i < pieces_[0].size(); ++i) edges_.push_back(pieces_[0][i].from);
  }

  TermShape shape() const override { return {static_cast<int>(pieces_.size()), 0}; }
  // The cache counts -d, so that it lies as keys do. Distances beyond it are evaluated where they are met.
  Result<void> prepare(int64_t least, int64_t largest) const override {
    if (largest - least >= kMost / 2) return {};
    return logarithms_.prepare("fire", -largest, -least, 4096, [this](int64_t first, int64_t count, float* to) {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(psi(static_cast<double>(first + i)));
    });
  }
  void fill(int head, int, int64_t m, int64_t n, std::span<double> out) const override {
    const std::vector<Piece>& pieces = pieces_[static_cast<size_t>(head)];
    const double norm = norm_of(m);
    size_t at = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      const double z = psi(static_cast<double>(m - n - static_cast<int64_t>(i))) * norm;
      // Neighbours lie in one piece, or in the next.
      while (at + 1 < pieces.size() && z >= pieces[at + 1].from) ++at;
      while (z < pieces[at].from) --at;
      out[i] = pieces[at].slope * z + pieces[at].offset;
    }
  }
  // Along a row z falls up to the query and rises behind it, so each piece is one run of keys on either side.
  void fill(int head, int heads, int64_t m, int64_t n, std::span<float> out) const override {
    const auto count = static_cast<int64_t>(out.size());
    const float* logarithm = logarithms_.find(n - m, n - m + count - 1);
    if (logarithm == nullptr) return PairTerm::fill(head, heads, m, n, out);
    const std::vector<Piece>& pieces = pieces_[static_cast<size_t>(head)];
    const float* at_query = static_cast<double>(m) > threshold_ ? logarithms_.find(-m, -m) : nullptr;
    const double psi_m = at_query != nullptr ? static_cast<double>(*at_query) + 1e-6 : 1 / norm_of(m);
    const double norm = 1 / psi_m;
    const int64_t behind = std::clamp<int64_t>(m - n, 0, count);  // keys before this one lie behind the query: z falls
    for (int64_t i = 0; i < count;) {
      const bool falls = i < behind;
      const double z = static_cast<double>(logarithm[i]) * norm;
      const auto next = std::upper_bound(edges_.begin(), edges_.end(), z);
      const Piece& piece = pieces[static_cast<size_t>(next - edges_.begin())];
      // The keys up to where z leaves the piece.
      const float* begin = logarithm + i;
      const float* end = logarithm + (falls ? behind : count);
      if (falls && next != edges_.begin()) {
        const auto border = static_cast<float>(next[-1] * psi_m);
        if (end[-1] < border) end = std::partition_point(begin + 1, end, [&](float x) { return x >= border; });
      } else if (!falls && next != edges_.end()) {
        const auto border = static_cast<float>(*next * psi_m);
        if (end[-1] >= border) end = std::partition_point(begin + 1, end, [&](float x) { return x < border; });
      }
      ops::affine(begin, static_cast<float>(piece.slope * norm), static_cast<float>(piece.offset), end - begin, out.data() + i);
      i = end - logarithm;
    }
  }

  void backward(const ScoreTile& row, std::span<const double>, std::span<double> gradient, const ContentGradient&,
                EncodingGradients& weights) const override {
    const auto h = static_cast<size_t>(row.head);
    const auto m = static_cast<double>(row.q_pos[0]);
    const double below = psi(std::max(m, threshold_)) + 1e-6;
    const double sign = c_ < 0 ? -1 : 1;
    const auto psi_by_c = [&](double x) { return sign * std::abs(x) / (1 + std::abs(c_ * x)); };
    double& by_c = weights.of("c", 1)[0];
    double& by_threshold = weights.of("threshold", 1)[0];
    std::vector<double>& w1 = weights.of("w1", kHidden);
    std::vector<double>& b1 = weights.of("b1", kHidden);
    std::vector<double>& w2 = weights.of("w2", pieces_.size() * kHidden);
    weights.of("b2", pieces_.size())[h] += std::accumulate(gradient.begin(), gradient.end(), 0.0);
    for (size_t col = 0; col < gradient.size(); ++col) {
      const double g = gradient[col];
      if (g == 0) continue;
      const auto d = static_cast<double>(row.q_pos[0] - row.k_pos[col]);
      const double z = psi(d) / below;
      double by_z = 0;
      for (size_t i = 0; i < kHidden; ++i) {
        const auto w = static_cast<double>(network_.w1[i]);
        const double x = w * z + static_cast<double>(network_.b1[i]);
        if (x <= 0) continue;
        const double by_x = g * static_cast<double>(network_.w2[h * kHidden + i]);
        w2[h * kHidden + i] += g * x;
        w1[i] += by_x * z;
        b1[i] += by_x;
        by_z += by_x * w;
      }
      by_c += by_z * (psi_by_c(d) - z * psi_by_c(std::max(m, threshold_))) / below;
      if (threshold_ > m)
        by_threshold -= by_z * z / below * std::abs(c_) / (1 + std::abs(c_ * threshold_)) * (negative_threshold_ ? -1 : 1);
    }
  }

 private:
  static constexpr int64_t kMost = int64_t{1} << 26;
  double psi(double x) const { return std::log1p(std::abs(c_ * x)); }
  double norm_of(int64_t m) const { return 1 / (psi(std::max(static_cast<double>(m), threshold_)) + 1e-6); }

  double c_, threshold_;
  bool negative_threshold_;
  Network network_;
  std::vector<std::vector<Piece>> pieces_;  // [H], the first from -infinity; the heads share the borders, edges_
  std::vector<double> edges_;
  DistanceCache<float> logarithms_{1, kMost};  // psi of -d
};

std::vector<Piece> pieces_of(const float* w1, const float* b1, const float* w2, double b2) {
  std::vector<double> edges;
  for (int i = 0; i < kHidden; ++i) {
    if (w1[i] != 0) edges.push_back(-static_cast<double>(b1[i]) / static_cast<double>(w1[i]));
  }
  std::sort(edges.begin(), edges.end());
  std::vector<Piece> pieces;
  for (size_t e = 0; e <= edges.size(); ++e) {
    const double from = e == 0 ? -kInfinity : edges[e - 1];
    const double to = e == edges.size() ? kInfinity : edges[e];
    // A point inside the piece tells which units are on.
    const double inside = e == 0 ? (edges.empty() ? 0 : to - 1) : e == edges.size() ? from + 1 : from + (to - from) / 2;
    Piece piece{from, 0, b2};
    for (int i = 0; i < kHidden; ++i) {
      const auto w = static_cast<double>(w1[i]);
      const auto b = static_cast<double>(b1[i]);
      if (w * inside + b <= 0) continue;
      piece.slope += static_cast<double>(w2[i]) * w;
      piece.offset += static_cast<double>(w2[i]) * b;
    }
    pieces.push_back(piece);
  }
  return pieces;
}

}  // namespace

const EncodingEntry& encoding_fire() {
  static const EncodingEntry entry = {
      .info = {.name = "fire",
               .title = "Functional interpolation (FIRE)",
               .family = "relative",
               .formula = "b_h(m, n) = MLP_h(psi(d) / psi(max(m, L))), psi(x) = ln(1 + |c x|)",
               .summary =
                   "A learned function of the distance as a share of the query's position, so that a longer text maps into the "
                   "range that was trained. Not shift invariant: the query's own position counts.",
               .source = "Li et al. 2023, arXiv:2310.04418",
               .cost = "a logarithm and a search for every pair",
               .points = {.score = true}},
      .shapes = [](const EncodingArguments&, const EncodingContext& context) -> std::vector<EncodingWeight> {
        return {{"c", {1}, {}},
                {"threshold", {1}, {}},
                {"w1", {kHidden}, {}},
                {"b1", {kHidden}, {}},
                {"w2", {context.heads, kHidden}, {}},
                {"b2", {context.heads}, {}}};
      },
      .initial =
          [](const std::string& table, double normal) {
            if (table == "c") return 0.1;
            if (table == "threshold") return 512.0;
            return table == "w2" ? 0.2 * normal : normal;
          },
      .make = [](const EncodingArguments&, const EncodingContext& context,
                 const EncodingTables& tables) -> Result<PositionEncoding> {
        std::vector<std::vector<Piece>> pieces;
        pieces.reserve(static_cast<size_t>(context.heads));
        for (int h = 0; h < context.heads; ++h) {
          pieces.push_back(pieces_of(tables["w1"].data(), tables["b1"].data(), tables["w2"].data() + h * kHidden,
                                     static_cast<double>(tables["b2"][static_cast<size_t>(h)])));
        }
        PositionEncoding encoding;
        encoding.score =
            std::make_shared<Fire>(static_cast<double>(tables["c"][0]), static_cast<double>(tables["threshold"][0]),
                                   Network{tables["w1"], tables["b1"], tables["w2"]}, std::move(pieces));
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
