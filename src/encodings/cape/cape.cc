// CAPE: sinusoids of positions that training moves, stretches and jitters (Likhomanenko et al. 2021, arXiv:2106.03143, section
// 3).
#include <cmath>
#include <memory>
#include <vector>

#include "base/random.h"
#include "encodings/registry.h"
#include "encodings/sinusoidal/sinusoid.h"

namespace ropewalk {
namespace {

struct Augmentation {
  double global = 0, local = 0, scale = 1;  // largest shift of a sequence, jitter of a token, stretch of a sequence
  bool normalize = false;
  bool whole = false;     // SHAPE: shifts are whole numbers from 0 to `global`
  int64_t sequence = -1;  // < 0: inference, nothing is drawn
  uint64_t seed = 0;
};

double between(Random& random, double low, double high) { return low + (high - low) * random.uniform(); }

class Cape : public InputTerm {
 public:
  Cape(const Augmentation& augmentation, int64_t width, double theta)
      : augmentation_(augmentation),
        width_(width),
        frequencies_(sinusoid_frequencies(form_of(theta), width)),
        form_(form_of(theta)) {}

  Result<void> apply(std::span<const int64_t> positions, float* x, int64_t width) const override {
    const std::vector<double> moved = augmented(positions);
    std::vector<double> row(static_cast<size_t>(width));
    const double content = std::sqrt(static_cast<double>(width_));
    for (size_t t = 0; t < positions.size(); ++t) {
      sinusoid(form_, frequencies_, moved[t], width, row.data());
      float* to = x + static_cast<int64_t>(t) * width;
      for (int64_t i = 0; i < width; ++i)
        to[i] = static_cast<float>(static_cast<double>(to[i]) * content + row[static_cast<size_t>(i)]);
    }
    return {};
  }

  void backward(std::span<const int64_t> positions, const float*, float* gradient, int64_t width,
                EncodingGradients&) const override {
    const auto content = static_cast<float>(std::sqrt(static_cast<double>(width_)));
    for (int64_t i = 0; i < static_cast<int64_t>(positions.size()) * width; ++i) gradient[i] *= content;
  }

 private:
  static SinusoidForm form_of(double theta) { return {SinusoidForm::Layout::kInterleaved, false, theta}; }

  // Draws come from (seed, sequence) and (seed, sequence, token), so they do not depend on threads or on the batch.
  std::vector<double> augmented(std::span<const int64_t> positions) const {
    const Augmentation& a = augmentation_;
    std::vector<double> moved(positions.begin(), positions.end());
    if (a.normalize && !moved.empty()) {
      double mean = 0;
      for (const double m : moved) mean += m / static_cast<double>(moved.size());
      for (double& m : moved) m -= mean;
    }
    if (a.sequence < 0) return moved;
    Random of_sequence(a.seed, 2 * static_cast<uint64_t>(a.sequence));
    Random of_tokens(a.seed, 2 * static_cast<uint64_t>(a.sequence) + 1);
    const double shift = a.whole ? static_cast<double>(of_sequence.below(static_cast<uint64_t>(a.global) + 1))
                                 : between(of_sequence, -a.global, a.global);
    const double stretch = std::exp(between(of_sequence, -std::log(a.scale), std::log(a.scale)));
    for (double& m : moved) m = (m + shift + between(of_tokens, -a.local, a.local)) * stretch;
    return moved;
  }

  Augmentation augmentation_;
  int64_t width_;
  std::vector<double> frequencies_;
  SinusoidForm form_;
};

PositionEncoding with(const Augmentation& augmentation, const EncodingContext& context, double theta) {
  PositionEncoding encoding;
  encoding.input = std::make_shared<Cape>(augmentation, context.width, theta);
  return encoding;
}

const EncodingParameter kTheta = {"theta", "base of the sinusoids", 10000, 1, 1e12, false};
const EncodingParameter kSequence = {"sequence",
                                     "number of the training sequence, which its draws depend on; -1 = inference: no draws",
                                     -1,
                                     -1,
                                     9007199254740991.0,
                                     true};

}  // namespace

const EncodingEntry& encoding_cape() {
  static const EncodingEntry entry = {
      .info =
          {.name = "cape",
           .title = "Continuous augmented positions",
           .family = "absolute",
           .formula = "sqrt(C) x_m + PE[m''], m'' = (m' + D_g + e_m) exp(l); D_g in +-global, e_m in +-local, l in +-ln(scale)",
           .summary =
               "Sinusoids of positions that are shifted, jittered and stretched at random while training, so that the model "
               "learns relations and not places. At inference it is the sinusoidal encoding.",
           .source = "Likhomanenko et al. 2021, arXiv:2106.03143",
           .cost = "one addition to the embeddings",
           .parameters = {{"global", "largest shift of a sequence", 5, 0, 1e9, false},
                          {"local", "largest jitter of a token", 0.5, 0, 1e9, false},
                          {"scale", "largest stretch of a sequence", 1.03, 1, 1e6, false},
                          {"normalize", "1: positions count from the mean of their sequence", 0, 0, 1, true},
                          kSequence,
                          kTheta},
           .points = {.input = true}},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        return with({arguments["global"], arguments["local"], arguments["scale"], arguments["normalize"] != 0, false,
                     arguments.whole("sequence"), context.seed},
                    context, arguments["theta"]);
      }};
  return entry;
}

const EncodingEntry& encoding_shape() {
  static const EncodingEntry entry = {
      .info = {.name = "shape",
               .title = "Shifted absolute positions (SHAPE)",
               .family = "absolute",
               .formula = "sqrt(C) x_m + PE[m + k], k a whole number drawn from 0 to `shift` for each training sequence",
               .summary = "CAPE with one whole shift a sequence and nothing else.",
               .source = "Kiyono et al. 2021, arXiv:2109.05644",
               .cost = "one addition to the embeddings",
               .parameters = {{"shift", "largest shift", 500, 0, 2147483647, true}, kSequence, kTheta},
               .points = {.input = true}},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        return with({arguments["shift"], 0, 1, false, true, arguments.whole("sequence"), context.seed}, context,
                    arguments["theta"]);
      }};
  return entry;
}

}  // namespace ropewalk
