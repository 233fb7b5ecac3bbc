// Complex word embeddings (Wang et al. 2020, arXiv:1912.12333) and scores of complex numbers; complex_attention_split is in
// ropewalk/attention.h.
//
// A complex vector of C numbers is held as 2C floats, [Re | Im] (Pairing::kHalves) or Re and Im in turns (kInterleaved). In a
// head, D floats are D/2 numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ropewalk/encoding.h"
#include "ropewalk/error.h"

namespace ropewalk {

// f(word, m)_k = r_k exp(i (w_k m + t_k)), equation 3. Amplitude r and phase t are tables [V][C]; frequencies w are shared as
// `sharing` says.
class ROPEWALK_API ComplexEmbedding {
 public:
  enum class Sharing : uint8_t {
    kNone,            // w [V][C]: for each word and dimension
    kOverWords,       // w [C]: a dimension has one
    kOverDimensions,  // w [V]: a word has one
  };
  // Errors: kInvalidArgument for tables of other sizes, or not finite.
  static Result<ComplexEmbedding> make(int64_t words, int64_t dims, Sharing sharing, std::vector<float> amplitude,
                                       std::vector<float> frequency, std::vector<float> phase);
  // out [T][2C]. Errors: kInvalidArgument for a token that is no word, sizes that differ.
  Result<void> embed(std::span<const int32_t> tokens, std::span<const int64_t> positions, Pairing pairing,
                     std::span<float> out) const;

 private:
  int64_t words_ = 0, dims_ = 0;
  Sharing sharing_ = Sharing::kNone;
  std::vector<float> amplitude_, frequency_, phase_;
};

// What the softmax is taken of.
enum class ComplexScore : uint8_t {
  kHermitian,  // |<q, k>| = |sum_j q_j conj(k_j)|: depends on m - n alone
  kProduct,    // |sum_j q_j k_j|, as in the authors' code
};
// A score term that puts the modulus in the place of the real product; D even.
ROPEWALK_API std::shared_ptr<const ScoreTerm> make_complex_score(ComplexScore score, Pairing pairing);

}  // namespace ropewalk
