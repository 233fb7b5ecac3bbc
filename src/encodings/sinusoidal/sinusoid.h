// Sinusoids of real positions, in the layouts and with the denominators that checkpoints have. Vaswani et al. 2017,
// arXiv:1706.03762, section 3.5.
#pragma once

#include <cstdint>
#include <vector>

namespace ropewalk {

struct SinusoidForm {
  enum class Layout : uint8_t {
    kInterleaved,
    kHalves
  } layout = Layout::kInterleaved;  // sin, cos, sin, cos ... | sines, cosines
  bool fairseq = false;             // exponents i / (C/2 - 1), floor(C/2) of both, and a last column of zeros where C is odd
  double theta = 10000;
};

// The frequencies of the planes. Odd width: ceil(C/2) sines and floor(C/2) cosines, but for fairseq.
std::vector<double> sinusoid_frequencies(const SinusoidForm& form, int64_t width);
// out [C] = the encoding of one position.
void sinusoid(const SinusoidForm& form, const std::vector<double>& frequencies, double position, int64_t width, double* out);

}  // namespace ropewalk
