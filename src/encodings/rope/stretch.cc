#include "encodings/rope/stretch.h"

#include <algorithm>

#include "base/fail.h"

namespace ropewalk {
namespace {

Result<RotarySchedule> act(RotarySchedule schedule, const Stretch& rule, int64_t length) {
  using Kind = Stretch::Kind;
  const int64_t in_use = rule.step > 0 ? length : rule.horizon;
  switch (rule.kind) {
    case Kind::kTheta: return scale_theta(std::move(schedule), rule.value);
    case Kind::kLinear: return scale_linear(std::move(schedule), rule.value);
    case Kind::kNtk: return scale_ntk(std::move(schedule), rule.value);
    case Kind::kGradient: return scale_gradient_base(std::move(schedule), rule.trained, rule.target);
    case Kind::kDynamic: return scale_dynamic_ntk(std::move(schedule), rule.value, rule.trained, in_use);
    case Kind::kYarn: return scale_yarn(std::move(schedule), rule.yarn, rule.trained);
    case Kind::kLlama3: return scale_llama3(std::move(schedule), rule.llama3, rule.trained);
    case Kind::kLongRope: return scale_longrope(std::move(schedule), rule.longrope, rule.trained, in_use);
    case Kind::kFactors: return scale_factors(std::move(schedule), rule.factors);
    case Kind::kLogN: {
      if (schedule.query_temperature.form != QueryTemperature::Form::kNone) {
        return fail(ErrorCode::kInvalidArgument,
                    "[logn] the model scales its queries by position already, so logn cannot be added");
      }
      if (rule.trained < 2) {
        return fail(ErrorCode::kInvalidArgument, "[logn] expected a trained length of 2 or more, but got {}", rule.trained);
      }
      schedule.query_temperature = {QueryTemperature::Form::kLogN, 0, rule.trained};
      return schedule;
    }
  }
  return schedule;
}

}  // namespace

Result<RotarySchedule> stretch(RotarySchedule schedule, const std::vector<Stretch>& rules, int64_t length) {
  for (const Stretch& rule : rules) {
    ROPEWALK_TRY(schedule, act(std::move(schedule), rule, length));
  }
  return schedule;
}

Result<std::shared_ptr<const StepPairs>> StepPairs::make(RotarySchedule base, std::vector<Stretch> rules) {
  int64_t trained = INT64_MAX, step = 0;
  for (const Stretch& rule : rules) {
    if (rule.step == 0) continue;
    if (step != 0 && rule.step != step) {
      return fail(ErrorCode::kInvalidArgument, "[setting] expected one step for all rules of a setting, but got {} and {}",
                  step, rule.step);
    }
    step = rule.step;
    trained = std::min(trained, rule.trained);
  }
  if (step == 0) return fail(ErrorCode::kInvalidArgument, "[setting] expected a rule with a step, but got none");
  for (const int64_t length : {int64_t{1}, length_by_step(int64_t{1} << 31, trained, step)}) {
    ROPEWALK_TRY(const auto tried, stretch(base, rules, length));
    (void)tried;
  }
  return std::shared_ptr<const StepPairs>(new StepPairs(std::move(base), std::move(rules), trained, step));
}

PairMap::Choice StepPairs::choose(PosRange queries, PosRange) const {
  Choice choice;
  choice.side[0] = choice.side[1] = static_cast<uint64_t>(length_by_step(queries.first, trained_, step_));
  return choice;
}

const RotarySchedule& StepPairs::schedule(uint64_t side) const {
  const std::lock_guard lock(mutex_);
  const auto it = schedules_.find(side);
  if (it != schedules_.end()) return it->second;
  auto made = stretch(base_, rules_, static_cast<int64_t>(side));
  // The rules were tried at make(), and their errors do not depend on the length in between.
  return schedules_.emplace(side, made ? *std::move(made) : base_).first->second;
}

int64_t StepPairs::next_edge(int64_t m) const {
  // Blocks that end at or before L0 share one length.
  const int64_t first_long = trained_ / step_ * step_;
  return m < first_long ? first_long : (m / step_ + 1) * step_;
}

}  // namespace ropewalk
