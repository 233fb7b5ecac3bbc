#include "workbench/plot/plot.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>

#include "base/fail.h"
#include "base/random.h"

namespace ropewalk {
namespace {

constexpr int kDraws = 32;

// x turned in double; positions that a double holds exactly.
std::vector<double> turned(const RotarySchedule& schedule, double position, const std::vector<float>& x) {
  std::vector<double> out(x.begin(), x.end());
  const size_t planes = schedule.inv_freq.size();
  for (size_t i = 0; i < planes; ++i) {
    const bool halves = schedule.pairing == Pairing::kHalves;
    const auto begin = static_cast<size_t>(schedule.rotated.begin);
    double& a = out[begin + (halves ? i : 2 * i)];
    double& b = out[begin + (halves ? i + planes : 2 * i + 1)];
    const std::complex<double> z = std::complex(a, b) * std::polar(schedule.amplitude, position * schedule.inv_freq[i]);
    a = z.real();
    b = z.imag();
  }
  return out;
}

// Scores as attention forms them, of one head, for a query at m and keys at n.
class Scorer {
 public:
  Scorer(const PositionEncoding& encoding, const EncodingContext& context) : encoding_(encoding), context_(context) {}

  // content [width] of query and key; head 0 of both meets.
  Result<double> score(std::vector<float> q, std::vector<float> k, int64_t m, int64_t n, double* state) const {
    const auto dim = static_cast<size_t>(context_.head_dim);
    if (encoding_.input != nullptr) {
      ROPEWALK_CHECK_OK(encoding_.input->apply({&m, 1}, q.data(), context_.width));
      ROPEWALK_CHECK_OK(encoding_.input->apply({&n, 1}, k.data(), context_.width));
    }
    q.resize(dim);
    k.resize(dim);
    const RotarySchedule* schedule = encoding_.rotary ? &*encoding_.rotary : nullptr;
    double at_m = static_cast<double>(m), at_n = static_cast<double>(n);
    if (encoding_.pairs != nullptr) {
      const uint64_t side = encoding_.pairs->choose({m, m}, {n, n}).at(m, n);
      schedule = &encoding_.pairs->schedule(side);
      encoding_.pairs->query_positions(side, {&m, 1}, {&at_m, 1});
      encoding_.pairs->key_positions(side, {&n, 1}, {&at_n, 1});
    }
    double scale = 1 / std::sqrt(static_cast<double>(dim)), sum = 0;
    if (schedule == nullptr) {
      for (size_t i = 0; i < dim; ++i) sum += static_cast<double>(q[i]) * static_cast<double>(k[i]);
    } else {
      const std::vector<double> a = turned(*schedule, at_m, q), b = turned(*schedule, at_n, k);
      const size_t planes = schedule->inv_freq.size(), begin = static_cast<size_t>(schedule->rotated.begin);
      for (size_t i = 0; i < dim; ++i) {
        double factor = 1;
        if (!schedule->decay.empty() && i >= begin && i < begin + 2 * planes) {
          const size_t plane = schedule->pairing == Pairing::kHalves ? (i - begin) % planes : (i - begin) / 2;
          factor = std::exp(schedule->decay[plane] * static_cast<double>(m - n));
        }
        sum += a[i] * b[i] * factor;
      }
      scale *= schedule->softmax_multiplier * query_multiplier(schedule->query_temperature, m);
    }
    double score = sum * scale;
    if (encoding_.score == nullptr) return score;
    ScoreTile tile;
    tile.heads = context_.heads;
    tile.q_pos = {&m, 1};
    tile.k_pos = {&n, 1};
    tile.q = q.data();
    tile.k = k.data();
    tile.q_stride = tile.k_stride = context_.head_dim;
    tile.scale = scale;
    tile.state = state;
    tile.state_stride = encoding_.score->row_state();
    encoding_.score->add(tile, &score, 1);
    return score;
  }

 private:
  const PositionEncoding& encoding_;
  const EncodingContext& context_;
};

bool sees(const Reach& reach, int64_t m, int64_t n) {
  if (reach.chunk > 0 && m / reach.chunk != n / reach.chunk) return false;
  return reach.window == 0 || m - n < reach.window || n < reach.sinks;
}

std::vector<float> content(const EncodingContext& context, uint64_t stream) {
  Random random(context.seed + 1, stream);
  std::vector<float> x(static_cast<size_t>(std::max<int64_t>(context.width, context.head_dim)));
  for (float& value : x) value = static_cast<float>(random.normal());
  return x;
}

PlotPanel& panel(Plot& plot, const std::string& title, const std::string& x, const std::string& y) {
  for (PlotPanel& one : plot.panels) {
    if (one.title == title) return one;
  }
  plot.panels.push_back({title, x, y, false, {}, 0, 0, {}});
  return plot.panels.back();
}

// The query stands at the far end, so that every distance has a key.
Result<void> add_scores(const std::string& name, const PositionEncoding& encoding, const PlotOptions& options, Plot& plot) {
  PlotSeries series{name, {}, {}};
  const Scorer scorer(encoding, options.context);
  const int64_t m = options.distance;
  std::vector<std::vector<double>> states(
      kDraws, std::vector<double>(encoding.score == nullptr ? 0 : static_cast<size_t>(encoding.score->row_state())));
  for (int64_t d = 0; d <= options.distance; ++d) {
    if (!sees(encoding.reach, m, m - d)) continue;
    double mean = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      const auto x = content(options.context, static_cast<uint64_t>(draw));
      ROPEWALK_TRY(const double score, scorer.score(x, x, m, m - d, states[static_cast<size_t>(draw)].data()));
      mean += score / kDraws;
    }
    series.x.push_back(static_cast<double>(d));
    series.y.push_back(mean);
  }
  panel(plot, "score of equal content, head 0, mean of 32", "distance m - n", "score").series.push_back(std::move(series));
  return {};
}

Result<void> add_input(const std::string& name, const PositionEncoding& encoding, const PlotOptions& options, Plot& plot) {
  const int64_t width = options.context.width, count = std::min<int64_t>(options.distance, 128);
  std::vector<int64_t> positions(static_cast<size_t>(count));
  std::iota(positions.begin(), positions.end(), int64_t{0});
  std::vector<float> x(static_cast<size_t>(count * width), 0.0F);
  ROPEWALK_CHECK_OK(encoding.input->apply(positions, x.data(), width));
  PlotPanel table{
      name + ": the encoding of a zero vector", "dim", "position", false, {}, count, std::min<int64_t>(width, 256), {}};
  PlotSeries dots{name, {}, {}};
  for (int64_t p = 0; p < count; ++p) {
    double dot = 0;
    for (int64_t c = 0; c < width; ++c) {
      const auto value = static_cast<double>(x[static_cast<size_t>(p * width + c)]);
      dot += value * static_cast<double>(x[static_cast<size_t>(c)]);
      if (c < table.cols) table.cells.push_back(value);
    }
    dots.x.push_back(static_cast<double>(p));
    dots.y.push_back(dot);
  }
  const auto [low, high] = std::minmax_element(table.cells.begin(), table.cells.end());
  if (*low < *high) plot.panels.push_back(std::move(table));
  panel(plot, "dot product with the encoding of position 0", "position", "product").series.push_back(std::move(dots));
  return {};
}

void add_biases(const std::string& name, const DistanceTerm& term, const PlotOptions& options, Plot& plot) {
  const int heads = options.context.heads, shown = std::min(heads, 4);
  for (int i = 0; i < shown; ++i) {
    const int head = shown == 1 ? 0 : i * (heads - 1) / (shown - 1);
    std::vector<double> biases(static_cast<size_t>(options.distance + 1));
    term.fill(head, heads, 0, biases);
    PlotSeries series{fmt::format("{} head {}", name, head), {}, {}};
    for (size_t d = 0; d < biases.size(); ++d) {
      if (!std::isfinite(biases[d])) continue;
      series.x.push_back(static_cast<double>(d));
      series.y.push_back(biases[d]);
    }
    panel(plot, "bias of a head", "distance m - n", "bias").series.push_back(std::move(series));
  }
}

void add_rotation(const std::string& name, const RotarySchedule& schedule, const PlotOptions& options, Plot& plot) {
  const size_t planes = schedule.inv_freq.size();
  if (planes == 0) return;
  PlotSeries bound{name, {}, {}}, waves{name, {}, {}};
  for (int64_t d = 0; d <= options.distance; ++d) {
    std::complex<double> partial = 0;
    double sum = 0;
    for (const double f : schedule.inv_freq) {
      partial += std::polar(1.0, static_cast<double>(d) * f);
      sum += std::abs(partial);
    }
    bound.x.push_back(static_cast<double>(d));
    bound.y.push_back(sum / static_cast<double>(planes));
  }
  for (size_t i = 0; i < planes; ++i) {
    if (schedule.inv_freq[i] == 0) continue;
    waves.x.push_back(static_cast<double>(i));
    waves.y.push_back(2 * std::numbers::pi / schedule.inv_freq[i]);
  }
  panel(plot, "long-range decay: (2/R) sum_j |S_j| (RoFormer 3.4.3)", "distance m - n", "bound")
      .series.push_back(std::move(bound));
  PlotPanel& wavelengths = panel(plot, "wavelength of each plane", "plane", "positions");
  wavelengths.log_y = true;
  if (wavelengths.series.empty()) {
    const auto trained = static_cast<double>(options.context.trained);
    wavelengths.series.push_back({"trained length", {0, static_cast<double>(planes - 1)}, {trained, trained}});
  }
  wavelengths.series.push_back(std::move(waves));
}

void add_positions(const std::string& name, const PositionEncoding& encoding, const PlotOptions& options, Plot& plot) {
  PlotSeries series{name, {}, {}};
  const int64_t m = options.distance;
  for (int64_t n = m; n >= 0; --n) {
    if (!sees(encoding.reach, m, n)) continue;
    const uint64_t side = encoding.pairs->choose({m, m}, {n, n}).at(m, n);
    double query = 0, key = 0;
    encoding.pairs->query_positions(side, {&m, 1}, {&query, 1});
    encoding.pairs->key_positions(side, {&n, 1}, {&key, 1});
    series.x.push_back(static_cast<double>(m - n));
    series.y.push_back(query - key);
  }
  panel(plot, fmt::format("distance that the rotation sees, from position {}", m), "distance m - n", "distance used")
      .series.push_back(std::move(series));
}

Result<void> add_matrix(const std::string& name, const PositionEncoding& encoding, const PlotOptions& options, Plot& plot) {
  const int64_t tokens = std::min<int64_t>(options.distance, 64);
  PlotPanel matrix{name + ": scores of random content, head 0", "key", "query", false, {}, tokens, tokens, {}};
  matrix.cells.assign(static_cast<size_t>(tokens * tokens), std::nan(""));
  const Scorer scorer(encoding, options.context);
  for (int64_t m = 0; m < tokens; ++m) {
    std::vector<double> state(encoding.score == nullptr ? 0 : static_cast<size_t>(encoding.score->row_state()));
    const auto q = content(options.context, 1000 + static_cast<uint64_t>(m));
    for (int64_t n = m; n >= 0; --n) {
      if (!sees(encoding.reach, m, n)) continue;
      const auto k = content(options.context, 2000 + static_cast<uint64_t>(n));
      ROPEWALK_TRY(matrix.cells[static_cast<size_t>(m * tokens + n)], scorer.score(q, k, m, n, state.data()));
    }
  }
  plot.panels.push_back(std::move(matrix));
  return {};
}

}  // namespace

Result<Plot> plot_encodings(std::span<const std::string> encodings, const PlotOptions& options) {
  if (options.distance < 2 || options.distance > 65536) {
    return fail(ErrorCode::kInvalidArgument, "[plot] expected a distance of 2 to 65536, but got {}", options.distance);
  }
  Plot plot;
  for (const std::string& text : encodings) {
    ROPEWALK_TRY(const PositionEncoding encoding, make_encoding(text, options.context));
    plot.title += (plot.title.empty() ? "" : ", ") + text;
    if (encoding.score != nullptr) ROPEWALK_CHECK_OK(encoding.score->prepare(0, options.distance));
    ROPEWALK_CHECK_OK(add_scores(text, encoding, options, plot));
    if (encoding.input != nullptr) ROPEWALK_CHECK_OK(add_input(text, encoding, options, plot));
    const DistanceTerm* by_distance = encoding.score == nullptr ? nullptr : encoding.score->by_distance();
    if (by_distance != nullptr) add_biases(text, *by_distance, options, plot);
    if (encoding.rotary) add_rotation(text, *encoding.rotary, options, plot);
    if (encoding.pairs != nullptr) add_positions(text, encoding, options, plot);
    const bool by_content = encoding.score != nullptr && by_distance == nullptr;
    const bool cuts = !(encoding.reach == Reach{});
    if (by_content || encoding.pairs != nullptr || cuts) ROPEWALK_CHECK_OK(add_matrix(text, encoding, options, plot));
  }
  return plot;
}

}  // namespace ropewalk
