// Complex word embeddings as an encoding: planes of the embedding turn by learned frequencies from learned phases, and scores
// are moduli. Tables by word: ropewalk/complex.h.
#include <cmath>
#include <memory>
#include <vector>

#include "base/fail.h"
#include "encodings/dot.h"
#include "encodings/registry.h"
#include "ropewalk/complex.h"

namespace ropewalk {

Result<ComplexEmbedding> ComplexEmbedding::make(int64_t words, int64_t dims, Sharing sharing, std::vector<float> amplitude,
                                                std::vector<float> frequency, std::vector<float> phase) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (words < 1 || dims < 1 || words > kMost || dims > kMost)
    return fail(ErrorCode::kInvalidArgument, "[complex] expected words and dimensions, but got {} and {}", words, dims);
  const int64_t all = words * dims;
  const int64_t frequencies = sharing == Sharing::kNone ? all : sharing == Sharing::kOverWords ? dims : words;
  const auto check = [](const char* name, const std::vector<float>& table, int64_t size) -> Result<void> {
    if (static_cast<int64_t>(table.size()) != size)
      return fail(ErrorCode::kInvalidArgument, "[complex] {}: expected {} values, but got {}", name, size, table.size());
    for (const float x : table) {
      if (!std::isfinite(x))
        return fail(ErrorCode::kInvalidArgument, "[complex] {}: expected finite values, but got {}", name, x);
    }
    return {};
  };
  ROPEWALK_CHECK_OK(check("amplitude", amplitude, all));
  ROPEWALK_CHECK_OK(check("frequency", frequency, frequencies));
  ROPEWALK_CHECK_OK(check("phase", phase, all));
  ComplexEmbedding embedding;
  embedding.words_ = words;
  embedding.dims_ = dims;
  embedding.sharing_ = sharing;
  embedding.amplitude_ = std::move(amplitude);
  embedding.frequency_ = std::move(frequency);
  embedding.phase_ = std::move(phase);
  return embedding;
}

Result<void> ComplexEmbedding::embed(std::span<const int32_t> tokens, std::span<const int64_t> positions, Pairing pairing,
                                     std::span<float> out) const {
  if (positions.size() != tokens.size() || out.size() != tokens.size() * static_cast<size_t>(2 * dims_)) {
    return fail(ErrorCode::kInvalidArgument, "[complex] expected {} positions and {} floats for {} tokens, but got {} and {}",
                tokens.size(), tokens.size() * static_cast<size_t>(2 * dims_), tokens.size(), positions.size(), out.size());
  }
  for (size_t t = 0; t < tokens.size(); ++t) {
    if (tokens[t] < 0 || tokens[t] >= words_)
      return fail(ErrorCode::kInvalidArgument, "[complex] expected a word from 0 to {}, but got {}", words_ - 1, tokens[t]);
    float* to = out.data() + static_cast<int64_t>(t) * 2 * dims_;
    for (int64_t k = 0; k < dims_; ++k) {
      const auto at = static_cast<size_t>(tokens[t] * dims_ + k);
      const size_t w = sharing_ == Sharing::kNone        ? at
                       : sharing_ == Sharing::kOverWords ? static_cast<size_t>(k)
                                                         : static_cast<size_t>(tokens[t]);
      // In long double: 2^31 radians keep 1e-10.
      const long double angle = static_cast<long double>(frequency_[w]) * static_cast<long double>(positions[t]) +
                                static_cast<long double>(phase_[at]);
      const auto r = static_cast<double>(amplitude_[at]);
      const bool halves = pairing == Pairing::kHalves;
      to[halves ? k : 2 * k] = static_cast<float>(r * static_cast<double>(std::cos(angle)));
      to[halves ? dims_ + k : 2 * k + 1] = static_cast<float>(r * static_cast<double>(std::sin(angle)));
    }
  }
  return {};
}

namespace {

// Where the parts of number j of a head lie.
struct Parts {
  size_t re, im;
};
Parts parts_of(Pairing pairing, size_t j, size_t numbers) {
  return pairing == Pairing::kHalves ? Parts{j, numbers + j} : Parts{2 * j, 2 * j + 1};
}

class Modulus : public ScoreTerm {
 public:
  Modulus(ComplexScore score, Pairing pairing, int dim) : score_(score), pairing_(pairing), dim_(dim) {}
  TermShape shape() const override { return {0, dim_}; }
  bool needs_content() const override { return true; }
  void add(const ScoreTile& tile, float* scores, int64_t stride) const override { add_to(tile, scores, stride); }
  void add(const ScoreTile& tile, double* scores, int64_t stride) const override { add_to(tile, scores, stride); }

  void backward(const ScoreTile& row, std::span<const double> scores, std::span<double> gradient,
                const ContentGradient& content, EncodingGradients&) const override {
    const auto dim = static_cast<size_t>(row.k_stride);
    std::vector<float> real(dim), turned(dim);
    turn(row.q, dim, real.data(), turned.data());
    for (size_t c = 0; c < gradient.size(); ++c) {
      if (gradient[c] == 0) continue;
      const float* k = row.k + static_cast<int64_t>(c) * row.k_stride;
      float* by_k = content.k + static_cast<int64_t>(c) * content.k_stride;
      const bool hermitian = score_ == ComplexScore::kHermitian;
      const double re = hermitian ? scores[c] : row.scale * dot_as<double>(real.data(), k, static_cast<int>(dim));
      const double im = row.scale * dot_as<double>(turned.data(), k, static_cast<int>(dim));
      const double size = std::hypot(re, im);
      const double by_re = size == 0 ? 0 : gradient[c] * re / size, by_im = size == 0 ? 0 : gradient[c] * im / size;
      gradient[c] = hermitian ? by_re : 0;
      const double by_real = hermitian ? 0 : row.scale * by_re;
      // turn() is linear in q, and its matrix is given by its effect on q: the gradient by q is k under its transpose.
      for (size_t i = 0; i < dim; ++i)
        by_k[i] +=
            static_cast<float>(row.scale * by_im * static_cast<double>(turned[i]) + by_real * static_cast<double>(real[i]));
      for (size_t j = 0; j < dim / 2; ++j) {
        const Parts at = parts_of(pairing_, j, dim / 2);
        const auto k_re = static_cast<double>(k[at.re]), k_im = static_cast<double>(k[at.im]);
        const double sign = hermitian ? -1 : 1;
        content.q[at.re] += static_cast<float>(row.scale * by_im * sign * k_im + by_real * k_re);
        content.q[at.im] += static_cast<float>(row.scale * by_im * k_re - by_real * k_im);
      }
    }
  }

 private:
  // Vectors whose products with k are the real and the imaginary part: sum q conj(k) = (qr kr + qi ki) + i (qi kr - qr ki), or
  // sum q k = (qr kr - qi ki) + i (qi kr + qr ki).
  void turn(const float* q, size_t dim, float* real, float* imaginary) const {
    const float sign = score_ == ComplexScore::kHermitian ? 1.0F : -1.0F;
    for (size_t j = 0; j < dim / 2; ++j) {
      const Parts at = parts_of(pairing_, j, dim / 2);
      real[at.re] = q[at.re];
      real[at.im] = sign * q[at.im];
      imaginary[at.re] = q[at.im];
      imaginary[at.im] = -sign * q[at.re];
    }
  }

  template <class T>
  void add_to(const ScoreTile& tile, T* scores, int64_t stride) const {
    const auto dim = static_cast<size_t>(tile.k_stride);
    std::vector<float> real(dim), turned(dim);
    const T scale = static_cast<T>(tile.scale);
    for (size_t r = 0; r < tile.q_pos.size(); ++r) {
      turn(tile.q + static_cast<int64_t>(r) * tile.q_stride, dim, real.data(), turned.data());
      T* row = scores + static_cast<int64_t>(r) * stride;
      for (size_t c = 0; c < tile.k_pos.size(); ++c) {
        if (std::isinf(row[c])) continue;  // hidden
        const float* k = tile.k + static_cast<int64_t>(c) * tile.k_stride;
        const T im = scale * dot_as<T>(turned.data(), k, static_cast<int>(dim));
        const T re = score_ == ComplexScore::kHermitian ? row[c] : scale * dot_as<T>(real.data(), k, static_cast<int>(dim));
        row[c] = std::hypot(re, im);
      }
    }
  }

  ComplexScore score_;
  Pairing pairing_;
  int dim_;
};

// Planes (2j, 2j+1) of the embedding: number j turns by w_j m + t_j.
class ComplexInput : public InputTerm {
 public:
  ComplexInput(std::vector<float> frequency, std::vector<float> phase)
      : frequency_(std::move(frequency)), phase_(std::move(phase)) {}
  Result<void> apply(std::span<const int64_t> positions, float* x, int64_t) const override {
    turn(positions, x, 1);
    return {};
  }
  void backward(std::span<const int64_t> positions, const float* x, float* gradient, int64_t width,
                EncodingGradients& weights) const override {
    // By the angle: the gradient along the turned number turned once more by a quarter.
    std::vector<float> turned(x, x + static_cast<int64_t>(positions.size()) * width);
    turn(positions, turned.data(), 1);
    std::vector<double>& by_frequency = weights.of("frequency", frequency_.size());
    std::vector<double>& by_phase = weights.of("phase", phase_.size());
    for (size_t t = 0; t < positions.size(); ++t) {
      for (size_t j = 0; j < frequency_.size(); ++j) {
        const size_t at = t * static_cast<size_t>(width) + 2 * j;
        const double by_angle = static_cast<double>(gradient[at + 1]) * static_cast<double>(turned[at]) -
                                static_cast<double>(gradient[at]) * static_cast<double>(turned[at + 1]);
        by_phase[j] += by_angle;
        by_frequency[j] += by_angle * static_cast<double>(positions[t]);
      }
    }
    turn(positions, gradient, -1);
  }

 private:
  void turn(std::span<const int64_t> positions, float* x, int direction) const {
    for (size_t t = 0; t < positions.size(); ++t) {
      for (size_t j = 0; j < frequency_.size(); ++j) {
        const long double angle = static_cast<long double>(frequency_[j]) * static_cast<long double>(positions[t]) +
                                  static_cast<long double>(phase_[j]);
        const auto c = static_cast<double>(std::cos(angle)), s = direction * static_cast<double>(std::sin(angle));
        float* number = x + (t * frequency_.size() + j) * 2;
        const auto re = static_cast<double>(number[0]), im = static_cast<double>(number[1]);
        number[0] = static_cast<float>(re * c - im * s);
        number[1] = static_cast<float>(re * s + im * c);
      }
    }
  }

  std::vector<float> frequency_, phase_;  // [C/2]
};

}  // namespace

std::shared_ptr<const ScoreTerm> make_complex_score(ComplexScore score, Pairing pairing) {
  return std::make_shared<Modulus>(score, pairing, 0);
}

const EncodingEntry& encoding_complex() {
  static const EncodingEntry entry = {
      .info = {.name = "complex",
               .title = "Complex word embeddings",
               .family = "absolute",
               .formula = "x_j = r_j exp(i (w_j m + t_j)), s = scale * |sum_j q_j conj(k_j)|, number j in dims (2j, 2j+1)",
               .summary = "Embeddings are complex: the word gives the amplitude, the position turns each number at a learned "
                          "frequency from "
                          "a learned phase, and the score is the modulus of the Hermitian product. Number by number it depends "
                          "on m - n. Here "
                          "frequencies are shared over words; by word, or by word and dimension: ropewalk/complex.h.",
               .used_by = "Complex Transformer (text classification, translation)",
               .source = "Wang et al. 2020, arXiv:1912.12333",
               .cost = "a product a pair for the imaginary part",
               .parameters = {{"product", "1: |sum q k| without conjugation, as in the authors' code", 0, 0, 1, true}},
               .points = {.input = true, .score = true}},
      .shapes = [](const EncodingArguments&, const EncodingContext& context) -> std::vector<EncodingWeight> {
        return {{"frequency", {context.width / 2}, {}}, {"phase", {context.width / 2}, {}}};
      },
      .initial = [](const std::string&, double normal) { return 0.5 * normal; },
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables& tables) -> Result<PositionEncoding> {
        if (context.width % 2 != 0 || context.head_dim % 2 != 0) {
          return fail(ErrorCode::kInvalidArgument,
                      "[encoding] complex: expected an even width and head size, but got {} and {}", context.width,
                      context.head_dim);
        }
        PositionEncoding encoding;
        encoding.input = std::make_shared<ComplexInput>(tables["frequency"], tables["phase"]);
        const ComplexScore score = arguments["product"] != 0 ? ComplexScore::kProduct : ComplexScore::kHermitian;
        encoding.score = std::make_shared<Modulus>(score, Pairing::kInterleaved, context.head_dim);
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
