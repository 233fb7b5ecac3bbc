// `ropewalk eval`: every setting at every length on the same tokens, by position, with intervals and paired differences.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "workbench/measure.h"
#include "workbench/plan.h"
#include "workbench/summary.h"

namespace ropewalk {

struct EvalRequest {
  std::vector<std::string> settings;  // the first is what the others are compared with
  std::vector<int64_t> lengths;
  int64_t windows = 1;  // a text; 0 = all that fit
  SummaryOptions summary;
};

struct EvalResult {
  std::vector<SettingRow> settings;  // setting by setting, lengths ascending
  std::vector<PairRow> paired;       // against the first setting; every pair where settings are few
  std::vector<Curve> curves;         // at the longest length: the loss of each setting, then its difference from the first
  std::vector<std::string> notes;
  bool complete = true;  // false: interrupted; the rows are what was finished
};

// The windows and the passes, without running any.
struct EvalPlan {
  std::vector<WindowSet> sets;
  Plan plan;
};
Result<EvalPlan> plan_eval(const Measurements& measurements, const EvalRequest& request);

// Runs the plan. `on_row` is told each (setting, length) as soon as it is there. When the caller asks to stop, what is finished
// comes back with complete = false. Errors: as Scorer::score.
Result<EvalResult> run_eval(Measurements& measurements, const EvalRequest& request, const EvalPlan& plan,
                            const Control& control, const std::function<void(const SettingRow&)>& on_row = {});

// Gathers a setting's scores at a set of windows that are all measured.
Result<Sample> gather(Measurements& measurements, const std::string& setting, const WindowSet& set, const Control& control);

}  // namespace ropewalk
