#include "workbench/eval.h"

#include <algorithm>
#include <set>

#include "base/fail.h"

namespace ropewalk {
namespace {

constexpr size_t kAllPairsUpTo = 6;  // settings; their number of pairs grows with the square
constexpr int64_t kCurvePoints = 256;

bool all_known(const Measurements& measurements, const std::string& setting, const WindowSet& set) {
  return std::all_of(set.windows.begin(), set.windows.end(), [&](const Window& w) { return measurements.known(setting, w); });
}

}  // namespace

Result<EvalPlan> plan_eval(const Measurements& measurements, const EvalRequest& request) {
  if (request.settings.empty()) return fail(ErrorCode::kInvalidArgument, "[eval] expected at least one setting, but got none");
  EvalPlan out;
  std::vector<std::string> notes;
  ROPEWALK_TRY(out.sets, make_windows(measurements.corpus(), request.lengths, request.windows, notes));
  out.plan = make_plan(measurements, request.settings, out.sets);
  out.plan.notes = std::move(notes);
  return out;
}

Result<Sample> gather(Measurements& measurements, const std::string& setting, const WindowSet& set, const Control& control) {
  Sample sample;
  sample.setting = setting;
  sample.length = set.length;
  for (const Window& window : set.windows) {
    ROPEWALK_TRY(Measured measured, measurements.get(setting, window, control));
    sample.seconds += measured.seconds;
    sample.pass_tokens += measured.pass_length;
    sample.pass_length = std::max(sample.pass_length, measured.pass_length);
    sample.windows.push_back(std::move(measured.nll));
  }
  return sample;
}

Result<EvalResult> run_eval(Measurements& measurements, const EvalRequest& request, const EvalPlan& plan,
                            const Control& control, const std::function<void(const SettingRow&)>& on_row) {
  EvalResult result;
  result.notes = plan.plan.notes;
  std::set<std::pair<std::string, int64_t>> shown;
  const auto show = [&]() {
    if (!on_row) return;
    for (const std::string& setting : request.settings) {
      for (const WindowSet& set : plan.sets) {
        if (shown.contains({setting, set.length}) || !all_known(measurements, setting, set)) continue;
        if (auto sample = gather(measurements, setting, set, control)) {
          shown.insert({setting, set.length});
          on_row(summarize(*sample, request.summary));
        }
      }
    }
  };
  show();
  double done = 0;
  for (const Task& task : plan.plan.tasks) {
    const double share = measurements.scorer().flops(task.window.length);
    auto measured = measurements.get(task.setting, task.window, part_of(control, done, share, plan.plan.flops));
    if (!measured) {
      if (measured.error().code() != ErrorCode::kInterrupted) return measured.error();
      result.complete = false;
      break;
    }
    done += share;
    if (control.progress) control.progress(done, plan.plan.flops);
    show();
    if (control.stopped() && done < plan.plan.flops) {
      result.complete = false;
      break;
    }
  }
  std::vector<std::string> settings;  // each once, in order
  for (const std::string& setting : request.settings) {
    if (std::find(settings.begin(), settings.end(), setting) == settings.end()) settings.push_back(setting);
  }
  std::map<int64_t, std::vector<Sample>> samples;  // by length
  for (const std::string& setting : settings) {
    for (const WindowSet& set : plan.sets) {
      if (!all_known(measurements, setting, set)) continue;
      ROPEWALK_TRY(Sample sample, gather(measurements, setting, set, control));
      result.settings.push_back(summarize(sample, request.summary));
      samples[set.length].push_back(std::move(sample));
    }
  }
  for (const auto& [length, group] : samples) {
    for (size_t a = 0; a < group.size(); ++a) {
      if (a > 0 && settings.size() > kAllPairsUpTo) break;
      for (size_t b = a + 1; b < group.size(); ++b) {
        std::vector<PairRow> rows = compare(group[a], group[b], {}, request.summary);
        result.paired.insert(result.paired.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
      }
    }
  }
  if (!samples.empty()) {
    const auto& longest = samples.rbegin()->second;
    for (const Sample& sample : longest) result.curves.push_back(make_curve(sample, nullptr, kCurvePoints));
    for (const Sample& sample : longest) {
      if (&sample != &longest.front()) result.curves.push_back(make_curve(sample, &longest.front(), kCurvePoints));
    }
  }
  return result;
}

}  // namespace ropewalk
