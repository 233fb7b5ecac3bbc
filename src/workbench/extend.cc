#include "workbench/extend.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.h"
#include "workbench/race.h"

namespace ropewalk {
namespace {

constexpr int64_t kFirstLook = 2048;  // tokens
constexpr double kRungShare = 0.4;    // a middle length is worth a stop when it costs less than this share of the target
constexpr double kFewestPasses = 3;   // at the target, which a budget should leave room for
constexpr double kLate = 1.1;         // an estimate made before the first pass: attention runs slower than products

int64_t first_look(int64_t trained) { return std::min(kFirstLook, trained / 2); }

std::vector<int64_t> rungs_below(int64_t trained, int64_t target, const Scorer& scorer) {
  std::vector<int64_t> out;
  if (first_look(trained) >= 64) out.push_back(first_look(trained));
  std::vector<int64_t> middle;
  for (int64_t length = target / 2; length * 4 >= trained * 5; length /= 2) {
    if (scorer.flops(length) <= kRungShare * scorer.flops(target)) middle.push_back(length);
  }
  out.insert(out.end(), middle.rbegin(), middle.rend());
  return out;
}

}  // namespace

const char* to_string(Standing standing) noexcept {
  switch (standing) {
    case Standing::kKept: return "kept";
    case Standing::kTie: return "tie";
    case Standing::kDropped: break;
  }
  return "dropped";
}

Result<ExtendPlan> plan_extend(const Measurements& measurements, const ExtendRequest& request, const SpeedModel& speed,
                               int64_t longest) {
  if (request.trained < 8)
    return fail(ErrorCode::kUnsupported, "[extend] expected a model that says what length it was trained for, but got {}",
                request.trained);
  if (request.target <= request.trained) {
    return fail(ErrorCode::kInvalidArgument,
                "[extend] expected a length past the {} tokens that the model was trained for, but got {}", request.trained,
                request.target);
  }
  ExtendPlan plan;
  const Scorer& scorer = measurements.scorer();
  // What the texts reach, which also bounds the search below.
  std::vector<std::string> ignored;
  ROPEWALK_TRY(const std::vector<WindowSet> whole, make_windows(measurements.corpus(), {request.target}, 1, ignored));
  const int64_t trained = request.trained, reach = whole.front().length;
  if (reach <= trained + 1) {
    return fail(
        ErrorCode::kInvalidArgument,
        "[extend] expected a text of more than {} tokens, the trained length, but got {}; give a longer one with --text",
        trained, reach);
  }
  const double windows = static_cast<double>(request.windows) * static_cast<double>(measurements.corpus().texts.size());
  const auto seconds_of = [&](int64_t length) { return speed.seconds(scorer.flops(length)) * windows; };
  const double n = static_cast<double>(request.candidates.size());
  const auto restart = [&](int64_t target) {
    return 2 * static_cast<double>(target - trained) / static_cast<double>(trained) * seconds_of(trained);
  };
  // A first look at all, some passes at the target, and whether the winner uses what lies far back.
  const auto least = [&](int64_t target) {
    return kLate * (n * seconds_of(first_look(trained)) + kFewestPasses * seconds_of(target) + restart(target));
  };
  int64_t target = std::min(reach, longest);
  if (least(target) > request.budget) {
    // The most quarters of the trained length that the budget pays for, so that factors stay round; one in any case.
    const int64_t step = trained / 4;
    int64_t few = 1, many = (target - trained - 1) / step;
    while (few < many) {
      const int64_t middle = many - (many - few) / 2;
      if (least(trained + middle * step) <= request.budget) {
        few = middle;
      } else {
        many = middle - 1;
      }
    }
    target = std::min(target, trained + few * step);
  }
  if (target < reach) {
    plan.notes.push_back(fmt::format("a budget of {} does not reach {} tokens (about {} would): measured to {} instead",
                                     human_seconds(request.budget), reach, human_seconds(least(reach)), target));
  }
  ROPEWALK_TRY(std::vector<WindowSet> sets,
               make_windows(measurements.corpus(), {target < reach ? target : request.target}, request.windows, plan.notes));
  plan.final_set = std::move(sets.front());
  plan.target = plan.final_set.length;
  plan.rungs = rungs_below(request.trained, plan.target, scorer);
  plan.memory = scorer.memory(plan.target);
  plan.memory_available = available_memory();
  double rungs = 0;
  for (const int64_t rung : plan.rungs) rungs += seconds_of(rung);
  plan.seconds_least =
      std::min(request.budget, 2 * seconds_of(plan.target) + n * (plan.rungs.empty() ? 0 : seconds_of(plan.rungs[0])));
  plan.seconds_most = std::min(request.budget, n * (seconds_of(plan.target) + rungs) + restart(plan.target));
  return plan;
}

Result<ExtendResult> run_extend(Measurements& measurements, const ExtendRequest& request, const ExtendPlan& plan,
                                SpeedModel speed, const Control& control, const ExtendEvents& events) {
  return Race(measurements, request, plan, speed, control, events).run();
}

}  // namespace ropewalk
