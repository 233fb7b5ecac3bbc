#include <cmath>
#include <memory>
#include <vector>

#include "encodings/registry.h"
#include "encodings/sinusoidal/sinusoid.h"

namespace ropewalk {

std::vector<double> sinusoid_frequencies(const SinusoidForm& form, int64_t width) {
  std::vector<double> frequencies;
  if (form.fairseq) {
    const int64_t half = width / 2;
    for (int64_t i = 0; i < half; ++i) {
      // One plane alone has no step between planes: it stands at frequency 1.
      const double exponent = half == 1 ? 0.0 : static_cast<double>(i) / static_cast<double>(half - 1);
      frequencies.push_back(std::pow(form.theta, -exponent));
    }
  } else {
    for (int64_t i = 0; i < (width + 1) / 2; ++i)
      frequencies.push_back(std::pow(form.theta, -2.0 * static_cast<double>(i) / static_cast<double>(width)));
  }
  return frequencies;
}

void sinusoid(const SinusoidForm& form, const std::vector<double>& frequencies, double position, int64_t width, double* out) {
  const auto sines = static_cast<int64_t>(frequencies.size());
  const int64_t cosines = form.fairseq ? sines : width / 2;
  for (int64_t i = 0; i < sines; ++i) {
    // In long double: 2^31 radians keep 1e-10.
    const long double angle =
        static_cast<long double>(position) * static_cast<long double>(frequencies[static_cast<size_t>(i)]);
    const bool halves = form.layout == SinusoidForm::Layout::kHalves;
    out[halves ? i : 2 * i] = static_cast<double>(std::sin(angle));
    if (i < cosines) out[halves ? sines + i : 2 * i + 1] = static_cast<double>(std::cos(angle));
  }
  for (int64_t i = sines + cosines; i < width; ++i) out[i] = 0;
}

namespace {

class Sinusoidal : public InputTerm {
 public:
  Sinusoidal(const SinusoidForm& form, double scale, int64_t width)
      : form_(form), scale_(scale), frequencies_(sinusoid_frequencies(form, width)) {}
  Result<void> apply(std::span<const int64_t> positions, float* x, int64_t width) const override {
    std::vector<double> row(static_cast<size_t>(width));
    for (size_t t = 0; t < positions.size(); ++t) {
      sinusoid(form_, frequencies_, static_cast<double>(positions[t]), width, row.data());
      float* to = x + static_cast<int64_t>(t) * width;
      for (int64_t i = 0; i < width; ++i)
        to[i] = static_cast<float>(static_cast<double>(to[i]) * scale_ + row[static_cast<size_t>(i)]);
    }
    return {};
  }

  void backward(std::span<const int64_t> positions, const float*, float* gradient, int64_t width,
                EncodingGradients&) const override {
    for (int64_t i = 0; i < static_cast<int64_t>(positions.size()) * width; ++i) gradient[i] *= static_cast<float>(scale_);
  }

 private:
  SinusoidForm form_;
  double scale_;
  std::vector<double> frequencies_;
};

}  // namespace

const EncodingEntry& encoding_sinusoidal() {
  static const EncodingEntry entry = {
      .info =
          {.name = "sinusoidal",
           .title = "Sinusoidal",
           .family = "absolute",
           .formula = "x_m + PE[m], PE[m, 2i] = sin(m w_i), PE[m, 2i+1] = cos(m w_i), w_i = theta^(-2i/C)",
           .summary =
               "A fixed vector for each position, added to the embedding. PE[m+k] is PE[m] turned by a rotation that depends "
               "on k alone, so relative offsets can be read from it.",
           .used_by = "the Transformer; Marian, M2M100, Pegasus, Speech2Text (halves)",
           .source = "Vaswani et al. 2017, arXiv:1706.03762, section 3.5",
           .cost = "one addition to the embeddings",
           .parameters = {{"theta", "base", 10000, 1, 1e12, false},
                          {"halves", "1: all sines, then all cosines", 0, 0, 1, true},
                          {"fairseq", "1: exponents i/(C/2 - 1), as in fairseq and tensor2tensor", 0, 0, 1, true},
                          {"scale", "factor on the embedding before the sum (the Transformer: sqrt(C))", 1, 0, 1e6, false}},
           .points = {.input = true}},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        using Layout = SinusoidForm::Layout;
        const SinusoidForm form{arguments["halves"] != 0 ? Layout::kHalves : Layout::kInterleaved, arguments["fairseq"] != 0,
                                arguments["theta"]};
        PositionEncoding encoding;
        encoding.input = std::make_shared<Sinusoidal>(form, arguments["scale"], context.width);
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
