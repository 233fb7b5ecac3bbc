// FIRE: a small network of a normalised distance (Li et al. 2023, arXiv:2310.04418, equation 4 and the code of appendix E).
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/fail.h"
#include "encodings/registry.h"

namespace ropewalk {
namespace {

constexpr int kHidden = 32;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// b_h(m, n) = w2_h . relu(w1 z + b1) + b2_h is piecewise linear in z = psi(d) / psi(max(m, L)), psi(x) = ln(c x + 1), so each
// head keeps its pieces: a search among at most 33 instead of 32 hidden units.
struct Piece {
  double from, slope, offset;  // for z >= from
};

class Fire : public ScoreTerm {
 public:
  using ScoreTerm::add;
  Fire(double c, double threshold, std::vector<std::vector<Piece>> pieces)
      : c_(c), threshold_(threshold), pieces_(std::move(pieces)) {}

  TermShape shape() const override { return {static_cast<int>(pieces_.size()), 0}; }
  void add(const ScoreTile& tile, float* scores, int64_t stride) const override { add_to(tile, scores, stride); }
  void add(const ScoreTile& tile, double* scores, int64_t stride) const override { add_to(tile, scores, stride); }

 private:
  template <class T>
  void add_to(const ScoreTile& tile, T* scores, int64_t stride) const {
    const auto rows = static_cast<int64_t>(tile.q_pos.size());
    const auto cols = static_cast<int64_t>(tile.k_pos.size());
    if (rows == 0 || cols == 0) return;
    // Most tiles hold few distances, so their logarithms are formed once.
    const auto [q_low, q_high] = std::minmax_element(tile.q_pos.begin(), tile.q_pos.end());
    const auto [k_low, k_high] = std::minmax_element(tile.k_pos.begin(), tile.k_pos.end());
    const int64_t least = *q_low - *k_high;
    std::vector<double> known;
    if (*q_high - *k_low - least < 2 * (rows + cols)) {
      for (int64_t d = least; d <= *q_high - *k_low; ++d) known.push_back(psi(static_cast<double>(d)));
    }
    const std::vector<Piece>& pieces = pieces_[static_cast<size_t>(tile.head)];
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t m = tile.q_pos[static_cast<size_t>(r)];
      const double norm = 1 / (psi(std::max(static_cast<double>(m), threshold_)) + 1e-6);
      T* row = scores + r * stride;
      size_t piece = 0;
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t d = m - tile.k_pos[static_cast<size_t>(c)];
        const double z = (known.empty() ? psi(static_cast<double>(d)) : known[static_cast<size_t>(d - least)]) * norm;
        // Neighbours lie in one piece, or in the next.
        while (piece + 1 < pieces.size() && z >= pieces[piece + 1].from) ++piece;
        while (z < pieces[piece].from) --piece;
        row[c] += static_cast<T>(pieces[piece].slope * z + pieces[piece].offset);
      }
    }
  }
  double psi(double x) const { return std::log1p(std::abs(c_ * x)); }

  double c_, threshold_;
  std::vector<std::vector<Piece>> pieces_;  // [H], the first from -infinity
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
        encoding.score = std::make_shared<Fire>(static_cast<double>(tables["c"][0]),
                                                std::abs(static_cast<double>(tables["threshold"][0])), std::move(pieces));
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
