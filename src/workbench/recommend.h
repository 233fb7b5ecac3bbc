// The decision: from measured candidates at the target length to one setting, with its reasons in sentences.
#pragma once

#include <string>
#include <vector>

#include "workbench/extend.h"

namespace ropewalk {

struct Finalist {
  Candidate candidate;
  Sample sample;  // at the target length
  bool expressible = true;
};

// delta of b against a in the objective: loss from L0 on plus short_weight times the loss below L0. The two parts are means
// over different tokens, so their half widths add as squares.
Interval objective_delta(const Sample& a, const Sample& b, int64_t trained, double short_weight, uint64_t seed);

struct Decision {
  size_t winner = 0;                  // index into the finalists
  size_t best = 0;                    // the same, unless the best of all cannot be loaded by any server
  size_t runner_up = 0;               // equal to winner when there is none
  std::vector<Interval> behind;       // objective of each finalist against the winner
  std::vector<Interval> price, gain;  // against the first
};
// finalists[0] is the model as it is.
Decision decide(const std::vector<Finalist>& finalists, int64_t trained, double short_weight, uint64_t seed);

std::vector<std::string> reasons(const std::vector<Finalist>& finalists, const Decision& decision, int64_t trained,
                                 int64_t target, uint64_t seed);

// How far: the end of the last stretch before the first one that is clearly worse than a fresh window on the same tokens;
// `trained` when that is the first. Without such a comparison: clearly worse than the unchanged model's own level in the second
// half of L0, by 0.1.
int64_t usable_to(const Sample& winner, const Sample& unchanged, const std::vector<PairRow>& restart, int64_t trained,
                  uint64_t seed);

std::string signed_nats(double x);             // "+0.013", "-1.120"
std::string interval_text(const Interval& i);  // "-1.120 (-1.150 to -1.080)"

}  // namespace ropewalk
