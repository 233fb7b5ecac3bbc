#include "workbench/race.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "base/fail.h"

namespace ropewalk {
namespace {

constexpr double kTooDear = 0.25;  // nats below L0: docs/design/0031-race.md
constexpr double kClearly = 0.02;  // nats by which a whole interval must lie behind to end a candidate at a middle length

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

WindowSet shortened(const WindowSet& set, int64_t length) {
  WindowSet out{length, length, set.windows};
  for (Window& window : out.windows) window.length = length;
  return out;
}

// The stretch [from, to) of the long window as the end of a fresh one that starts at most L0 before `to`. Predicting position p
// of the long window is position p - start of the fresh one; a BOS shifts both alike. The last score of a stretch needs the
// token after it.
struct Fresh {
  int64_t from = 0, to = 0, start = 0;
  WindowSet set;
};
Fresh fresh_window(const WindowSet& final_set, int64_t from, int64_t trained, int64_t target) {
  Fresh out{from, std::min(from + trained / 2, target), from - trained / 2, {}};
  out.set = {trained, std::min(out.to + 1, target) - out.start, final_set.windows};
  for (Window& w : out.set.windows) {
    w.start += out.start;
    w.length = out.set.length;
  }
  return out;
}

}  // namespace

Race::Race(Measurements& measurements, const ExtendRequest& request, const ExtendPlan& plan, SpeedModel speed,
           const Control& control, const ExtendEvents& events)
    : measurements_(measurements),
      request_(request),
      plan_(plan),
      speed_(speed),
      control_(control),
      events_(events),
      start_(now()) {
  result_.asked = request.target;
  result_.target = plan.target;
  result_.eval.notes = plan.notes;
  for (size_t i = 0; i < request.candidates.size(); ++i) {
    CandidateResult c;
    c.setting = setting_of(i);
    c.expressible = !request.expressible || request.expressible(c.setting);
    result_.candidates.push_back(c);
    alive_.push_back(i);
  }
}

Result<ExtendResult> Race::run() {
  // A first look within the trained length: seconds, and it ends what is dear where the model needs no help.
  size_t rung = 0;
  for (; rung < plan_.rungs.size() && plan_.rungs[rung] <= request_.trained; ++rung) {
    expect_from(rung);
    ROPEWALK_CHECK_OK(measure_rung(plan_.rungs[rung]));
  }
  // The problem: the model as it is, at the target.
  bool have_none = false;
  if (!stopped_) {
    expect_from(rung);
    ROPEWALK_TRY(have_none, measure(0, plan_.final_set, {.must = true}));
  }
  for (; rung < plan_.rungs.size() && have_none && !stopped_; ++rung) {
    expect_from(rung);
    ROPEWALK_CHECK_OK(measure_rung(plan_.rungs[rung]));
  }
  if (have_none && !stopped_) ROPEWALK_CHECK_OK(measure_finals());
  result_.eval.complete = have_none && !stopped_;
  for (size_t i = 0; i < result_.candidates.size(); ++i) {
    CandidateResult& c = result_.candidates[i];
    if (c.standing != Standing::kKept || std::find(finalist_of_.begin(), finalist_of_.end(), i) != finalist_of_.end()) continue;
    c.standing = Standing::kDropped;
    if (c.why.empty())
      c.why = fmt::format("not measured at {} tokens{}", plan_.target, stopped_ ? ": the run was interrupted" : "");
  }
  if (!finalists_.empty() && result_.eval.complete) ROPEWALK_CHECK_OK(decide_and_explain());
  ROPEWALK_CHECK_OK(make_tables());
  result_.seconds = elapsed();
  if (control_.progress) control_.progress(1, 1);
  return std::move(result_);
}

// ---- passes and time

double Race::elapsed() const { return now() - start_; }

void Race::say(const std::string& line) const {
  if (events_.say) events_.say(line);
}

double Race::cost(const std::string& setting, const WindowSet& set) const {
  double flops = 0;
  for (const Window& window : set.windows) {
    if (!measurements_.known(setting, window)) flops += measurements_.scorer().flops(window.length);
  }
  return flops;
}

// What is left at most, for progress: every candidate still alive at every length still to come.
void Race::expect_from(size_t rung) {
  left_ = 0;
  for (const size_t i : alive_) {
    for (size_t r = rung; r < plan_.rungs.size(); ++r) left_ += cost(setting_of(i), shortened(plan_.final_set, plan_.rungs[r]));
    left_ += cost(setting_of(i), plan_.final_set);
  }
  left_ += fresh_cost();
}

double Race::fresh_cost() const {
  double flops = 0;
  for (int64_t from = request_.trained; from < plan_.target - 1; from += request_.trained / 2)
    flops += cost(setting_of(0), fresh_window(plan_.final_set, from, request_.trained, plan_.target).set);
  return flops;
}

Result<Race::Outcome> Race::pass(const std::string& setting, const WindowSet& set, Leave leave) {
  const double needed = cost(setting, set);
  if (!leave.must && needed > 0 && elapsed() + speed_.seconds(needed + leave.reserve) > request_.budget)
    return Outcome::kOutOfTime;
  for (const Window& window : set.windows) {
    if (measurements_.known(setting, window)) continue;
    const double flops = measurements_.scorer().flops(window.length);
    const double total = done_ + std::max(left_, flops);
    auto measured = measurements_.get(setting, window, part_of(control_, done_, flops, total));
    if (!measured) {
      if (measured.error().code() == ErrorCode::kInterrupted) return Outcome::kStopped;
      return measured.error();
    }
    speed_.learn(flops, measured->seconds);
    done_ += flops;
    left_ = std::max(0.0, left_ - flops);
  }
  return control_.stopped() ? Outcome::kStopped : Outcome::kDone;
}

Result<bool> Race::measure(size_t candidate, const WindowSet& set, Leave leave) {
  CandidateResult& c = result_.candidates[candidate];
  ROPEWALK_TRY(const Outcome outcome, pass(c.setting, set, leave));
  if (outcome == Outcome::kOutOfTime) {
    std::string needs = "about " + human_seconds(speed_.seconds(cost(c.setting, set)));
    if (leave.reserve > 0)
      needs += fmt::format(", and {} for the last comparison", human_seconds(speed_.seconds(leave.reserve)));
    c.why = fmt::format("not measured at {} tokens: it needs {}; {} of the budget of {} are left", set.length, needs,
                        human_seconds(std::max(0.0, request_.budget - elapsed())), human_seconds(request_.budget));
    say(fmt::format("{} is {}", c.setting, c.why));
    return false;
  }
  stopped_ = outcome == Outcome::kStopped;
  const bool known =
      std::all_of(set.windows.begin(), set.windows.end(), [&](const Window& w) { return measurements_.known(c.setting, w); });
  if (!known) return false;
  if (events_.row) {
    ROPEWALK_TRY(const Sample sample, gather(measurements_, c.setting, set, control_));
    events_.row(summarize(sample, request_.summary));
  }
  return true;
}

void Race::drop(size_t candidate, int64_t length, std::string why) {
  CandidateResult& c = result_.candidates[candidate];
  c.standing = Standing::kDropped;
  c.dropped_at = length;
  c.why = std::move(why);
  say(fmt::format("{} is dropped: {}", c.setting, c.why));
}

// ---- lengths below the target

Result<void> Race::measure_rung(int64_t length) {
  const WindowSet set = shortened(plan_.final_set, length);
  std::vector<std::pair<size_t, Sample>> measured;
  for (const size_t i : alive_) {
    if (stopped_) return {};
    if (i == 0 && length > request_.trained) continue;  // its pass at the target has it
    ROPEWALK_TRY(const bool have, measure(i, set, {}));
    if (!have) continue;
    ROPEWALK_TRY(Sample sample, gather(measurements_, setting_of(i), set, control_));
    measured.emplace_back(i, std::move(sample));
  }
  if (stopped_) return {};
  if (length <= request_.trained) {
    judge_first_look(set, measured);
  } else {
    judge_middle(set, measured);
  }
  std::erase_if(alive_, [&](size_t i) { return i != 0 && result_.candidates[i].standing == Standing::kDropped; });
  return {};
}

void Race::judge_first_look(const WindowSet& set, const std::vector<std::pair<size_t, Sample>>& measured) {
  if (measured.empty() || measured.front().first != 0) return;  // the budget is spent: nothing to hold them against
  const Sample& base = measured.front().second;
  for (const auto& [i, sample] : std::span(measured).subspan(1)) {
    const Interval price = compare_range(base, sample, {0, set.length}, request_.summary.seed).delta;
    if (price.low <= kTooDear) continue;
    drop(i, set.length,
         fmt::format("it costs {} nats a token over the first {}, where the model needs no help", interval_text(price),
                     set.length));
  }
}

void Race::judge_middle(const WindowSet& set, const std::vector<std::pair<size_t, Sample>>& measured) {
  const int64_t trained = request_.trained;
  for (const auto& [i, sample] : measured) {
    for (const auto& [j, rival] : measured) {
      if (i == j || request_.candidates[j].reach < request_.candidates[i].reach ||
          result_.candidates[j].standing == Standing::kDropped)
        continue;
      const Interval far = compare_range(rival, sample, {trained, set.length}, request_.summary.seed).delta;
      const Interval near = compare_range(rival, sample, {0, trained}, request_.summary.seed).delta;
      if (far.low <= kClearly || near.low <= -kClearly) continue;
      drop(i, set.length,
           fmt::format("at {} tokens it is {} nats behind {}, which reaches as far", set.length, interval_text(far),
                       rival.setting));
      break;
    }
  }
}

// ---- the target

Result<void> Race::measure_finals() {
  expect_from(plan_.rungs.size());
  for (const size_t i : alive_) {
    if (stopped_) return {};
    if (i != 0) {
      // One candidate in any case; from the second on, only where the last comparison stays affordable.
      const bool first = finalists_.size() == 1;
      ROPEWALK_TRY(const bool have, measure(i, plan_.final_set, {.must = first, .reserve = fresh_cost()}));
      if (!have) continue;
    }
    ROPEWALK_TRY(Sample sample, gather(measurements_, setting_of(i), plan_.final_set, control_));
    finalists_.push_back({request_.candidates[i], std::move(sample), result_.candidates[i].expressible});
    finalist_of_.push_back(i);
  }
  return {};
}

Result<void> Race::decide_and_explain() {
  const int64_t trained = request_.trained;
  const uint64_t seed = request_.summary.seed;
  const Decision decision = decide(finalists_, trained, request_.short_weight, seed);
  const Finalist& winner = finalists_[decision.winner];
  for (size_t f = 0; f < finalists_.size(); ++f) {
    CandidateResult& c = result_.candidates[finalist_of_[f]];
    if (f != 0) {
      c.price = decision.price[f];
      c.gain = decision.gain[f];
      result_.price.push_back(compare_range(finalists_[0].sample, finalists_[f].sample, {0, trained}, seed));
    }
    if (f == decision.winner) {
      c.why = "recommended";
      continue;
    }
    const Interval& behind = decision.behind[f];
    c.standing = behind.low > 0 ? Standing::kDropped : Standing::kTie;
    if (c.standing == Standing::kDropped) c.dropped_at = plan_.target;
    c.why = fmt::format("{} nats against {}, long and short together", interval_text(behind), winner.candidate.setting);
  }
  ROPEWALK_CHECK_OK(compare_with_fresh_windows(winner.sample));

  Recommendation& recommendation = result_.recommendation;
  recommendation.setting = winner.candidate.setting;
  recommendation.gain = decision.gain[decision.winner];
  recommendation.short_cost = decision.price[decision.winner];
  if (decision.runner_up != decision.winner) recommendation.runner_up = finalists_[decision.runner_up].candidate.setting;
  recommendation.reason = reasons(finalists_, decision, trained, plan_.target, seed);
  recommendation.usable_to =
      std::min(plan_.target, usable_to(winner.sample, finalists_[0].sample, result_.restart, trained, seed));
  if (!result_.restart.empty()) {
    const PairRow& last = result_.restart.back();
    recommendation.reason.push_back(
        fmt::format("From position {} to {}, reading everything changes the loss by {} nats a token against the unmodified "
                    "model that sees the last {} to {} tokens only.",
                    last.bucket.from, last.bucket.to, interval_text(last.delta), trained / 2, trained));
  }
  std::string unmeasured;
  for (const CandidateResult& c : result_.candidates) {
    if (c.standing == Standing::kDropped && c.dropped_at == 0) unmeasured += (unmeasured.empty() ? "" : ", ") + c.setting;
  }
  if (!unmeasured.empty()) {
    recommendation.reason.push_back(
        fmt::format("Not measured at {} tokens within the budget, so not judged: {}.", plan_.target, unmeasured));
  }
  if (plan_.target < request_.target) {
    recommendation.reason.push_back(
        fmt::format("Nothing is claimed past {} tokens: {} were asked for, but not measured.", plan_.target, request_.target));
  }
  return {};
}

// Does the winner use what lies far back? The unchanged model, started afresh within L0, on the same tokens.
Result<void> Race::compare_with_fresh_windows(const Sample& winner) {
  const std::string& none = setting_of(0);
  left_ = fresh_cost();
  for (int64_t from = request_.trained; from < plan_.target - 1 && !stopped_; from += request_.trained / 2) {
    const Fresh fresh = fresh_window(plan_.final_set, from, request_.trained, plan_.target);
    ROPEWALK_TRY(const Outcome outcome, pass(none, fresh.set, {}));
    stopped_ = outcome == Outcome::kStopped;
    if (outcome == Outcome::kOutOfTime)
      result_.eval.notes.push_back(fmt::format("the budget left no time to compare with a fresh window past {}", from));
    if (outcome != Outcome::kDone) return {};
    ROPEWALK_TRY(const Sample afresh, gather(measurements_, none, fresh.set, control_));
    Sample other = winner;
    other.setting = fmt::format("{} in a fresh window", none);
    for (size_t w = 0; w < winner.windows.size(); ++w) {
      for (int64_t p = from; p < fresh.to && p < static_cast<int64_t>(winner.windows[w].size()); ++p)
        other.windows[w][static_cast<size_t>(p)] = afresh.windows[w][static_cast<size_t>(p - fresh.start)];
    }
    result_.restart.push_back(compare_range(other, winner, {from, fresh.to}, request_.summary.seed));
  }
  return {};
}

// Every setting at every length that was measured.
Result<void> Race::make_tables() {
  EvalRequest tables;
  for (const Candidate& candidate : request_.candidates) tables.settings.push_back(candidate.setting);
  tables.summary = request_.summary;
  EvalPlan all;
  for (const int64_t rung : plan_.rungs) all.sets.push_back(shortened(plan_.final_set, rung));
  all.sets.push_back(plan_.final_set);
  ROPEWALK_TRY(EvalResult rows, run_eval(measurements_, tables, all, {}));
  rows.complete = result_.eval.complete;
  rows.notes = std::move(result_.eval.notes);
  result_.eval = std::move(rows);
  return {};
}

}  // namespace ropewalk
