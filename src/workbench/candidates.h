// The closed-form settings that are worth trying for an extension.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ropewalk {

struct Candidate {
  std::string setting;
  // Tokens that the rule is made for: s L0, or the length it was given; infinite where it follows the position. A middle length
  // speaks against a candidate only where another of the same reach or more does better there.
  double reach = 0;
};

// For s = target / trained: none; linear:s; ntk:s and ntk:2s (NTK-aware falls short of its factor, so twice is usual); yarn:s
// and, from s = 4, yarn:2s; dynamic:s in steps, and from s = 2 with the target as its horizon; llama3:s from s = 4. The first
// is always "none".
std::vector<Candidate> closed_form_candidates(int64_t trained, int64_t target);
// A setting that a user adds: the reach from its first number where that is a factor.
Candidate candidate_of(const std::string& setting, int64_t trained, int64_t target);

}  // namespace ropewalk
