// A rule of a setting made ready to act, and the pair map of those that depend on the length of a sequence.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "encodings/rope/rules.h"
#include "ropewalk/encoding.h"

namespace ropewalk {

struct Stretch {
  enum class Kind : uint8_t { kTheta, kLinear, kNtk, kGradient, kDynamic, kYarn, kLlama3, kLongRope, kFactors, kLogN };
  Kind kind = Kind::kLinear;
  double value = 1;     // theta, linear, ntk, dynamic
  int64_t trained = 0;  // L0
  int64_t target = 0;   // gradient: L
  int64_t step = 0;     // dynamic, longrope: by steps when > 0 ...
  int64_t horizon = 0;  // ... else for this L, for the whole sequence
  YarnParams yarn;
  Llama3Params llama3;
  LongRopeParams longrope;
  std::vector<double> factors;
};

// The schedule under all rules in turn; `length` is what the rules with a step take for L.
Result<RotarySchedule> stretch(RotarySchedule schedule, const std::vector<Stretch>& rules, int64_t length);

// Dynamic rules by steps: the row of query m uses L_m = max(L0, step * ceil((m + 1) / step)) for itself and for all its keys.
// It depends on m alone: one pass, chunks and token by token agree, and rows below L0 are the unscaled model's.
class StepPairs : public PairMap {
 public:
  // Errors: those of the rules, tried at both ends of the range of lengths.
  static Result<std::shared_ptr<const StepPairs>> make(RotarySchedule base, std::vector<Stretch> rules);

  Choice choose(PosRange queries, PosRange keys) const override;
  const RotarySchedule& schedule(uint64_t side) const override;  // side = L_m
  int64_t next_edge(int64_t m) const override;

 private:
  StepPairs(RotarySchedule base, std::vector<Stretch> rules, int64_t trained, int64_t step)
      : base_(std::move(base)), rules_(std::move(rules)), trained_(trained), step_(step) {}

  RotarySchedule base_;
  std::vector<Stretch> rules_;
  int64_t trained_, step_;
  mutable std::mutex mutex_;
  mutable std::map<uint64_t, RotarySchedule> schedules_;  // nodes stay where they are
};

}  // namespace ropewalk
