// `ropewalk extend`: candidates race to the target length, and what was measured decides.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "workbench/candidates.h"
#include "workbench/eval.h"

namespace ropewalk {

struct ExtendRequest {
  int64_t trained = 0;                                      // L0
  int64_t target = 0;                                       // L
  std::vector<Candidate> candidates;                        // the first is the model as it is
  int64_t windows = 1;                                      // a text
  double budget = std::numeric_limits<double>::infinity();  // seconds
  double short_weight = 1;                                  // what a nat below L0 counts against a nat past it
  // Whether some server can load the setting; a recommendation prefers one that can. Absent: all can.
  std::function<bool(const std::string& setting)> expressible;
  SummaryOptions summary;
};

enum class Standing { kKept, kTie, kDropped };
const char* to_string(Standing standing) noexcept;  // "kept", "tie", "dropped"

struct CandidateResult {
  std::string setting;
  Standing standing = Standing::kKept;
  int64_t dropped_at = 0;  // the length whose measurement decided; 0 = not measured
  std::string why;         // a sentence
  bool expressible = true;
  std::optional<Interval> price;  // against the model as it is, positions below L0
  std::optional<Interval> gain;   // ... and from L0 on
};

struct Recommendation {
  std::string setting;
  std::vector<std::string> reason;  // sentences
  int64_t usable_to = 0;            // measured, never more than the longest window
  Interval short_cost, gain;        // against the model as it is: below L0, and from L0 on
  std::string runner_up;            // empty when there is none
};

struct ExtendResult {
  EvalResult eval;  // every (setting, length) that was measured for all windows
  std::vector<CandidateResult> candidates;
  Recommendation recommendation;
  std::vector<PairRow> price;     // each finalist against the model as it is, below L0
  std::vector<PairRow> restart;   // the winner at the target against a fresh window of the unchanged model, same tokens
  int64_t asked = 0, target = 0;  // what was asked, and what the texts and the budget allowed
  double seconds = 0;
};

// What the caller may show while the race runs.
struct ExtendEvents {
  std::function<void(const std::string& line)> say;
  std::function<void(const SettingRow& row)> row;
};

struct ExtendPlan {
  int64_t target = 0;
  WindowSet final_set;
  std::vector<int64_t> rungs;                  // shorter lengths that come before the target
  double seconds_least = 0, seconds_most = 0;  // with everything dropped early, and with nothing
  int64_t memory = 0, memory_available = 0;
  std::vector<std::string> notes;
};
// Candidates follow the target, and their number is a part of its price: a caller that chooses them for a plan plans again with
// that target as `longest`, until the two agree. Errors: kInvalidArgument when the target is not past the trained length or the
// texts are not.
Result<ExtendPlan> plan_extend(const Measurements& measurements, const ExtendRequest& request, const SpeedModel& speed,
                               int64_t longest = std::numeric_limits<int64_t>::max());

// Interrupted: eval.complete = false, and the recommendation is empty unless the race had been decided.
Result<ExtendResult> run_extend(Measurements& measurements, const ExtendRequest& request, const ExtendPlan& plan,
                                SpeedModel speed, const Control& control, const ExtendEvents& events);

}  // namespace ropewalk
