#include "workbench/extend.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/fail.h"
#include "workbench/recommend.h"

namespace ropewalk {
namespace {

constexpr double kTooDear = 0.25;     // nats below L0: no long gain of another rule was ever worth as much
constexpr double kClearly = 0.02;     // nats by which a whole interval must lie behind to end a candidate at a middle length
constexpr int64_t kFirstLook = 2048;  // tokens
constexpr double kRungShare = 0.4;    // a middle length is worth a stop when it costs less than this share of the target
constexpr size_t kFewestPasses = 3;   // at the target, which a budget should leave room for

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

WindowSet shortened(const WindowSet& set, int64_t length) {
  WindowSet out{length, length, set.windows};
  for (Window& window : out.windows) window.length = length;
  return out;
}

std::vector<int64_t> rungs_below(int64_t trained, int64_t target, const Scorer& scorer) {
  std::vector<int64_t> out;
  const int64_t look = std::min(kFirstLook, trained / 2);
  if (look >= 64) out.push_back(look);
  std::vector<int64_t> middle;
  for (int64_t length = target / 2; length * 4 >= trained * 5; length /= 2) {
    if (scorer.flops(length) <= kRungShare * scorer.flops(target)) middle.push_back(length);
  }
  out.insert(out.end(), middle.rbegin(), middle.rend());
  return out;
}

// Runs passes, keeps time, and says when the budget is spent.
class Runner {
 public:
  Runner(Measurements& measurements, const ExtendRequest& request, SpeedModel speed, const Control& control)
      : measurements_(measurements), request_(request), speed_(speed), control_(control), start_(now()) {}

  enum class Outcome { kDone, kOutOfTime, kStopped };

  double cost(const std::string& setting, const WindowSet& set) const {
    double flops = 0;
    for (const Window& window : set.windows) {
      if (!measurements_.known(setting, window)) flops += measurements_.scorer().flops(window.length);
    }
    return flops;
  }
  void expect(double flops) { left_ = flops; }

  Result<Outcome> run(const std::string& setting, const WindowSet& set) {
    const double needed = cost(setting, set);
    if (needed > 0 && elapsed() + speed_.seconds(needed) > request_.budget) return Outcome::kOutOfTime;
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
  double elapsed() const { return now() - start_; }
  void finished() const {
    if (control_.progress) control_.progress(1, 1);
  }

 private:
  Measurements& measurements_;
  const ExtendRequest& request_;
  SpeedModel speed_;
  const Control& control_;
  double start_, done_ = 0, left_ = 0;
};

}  // namespace

const char* to_string(Standing standing) noexcept {
  switch (standing) {
    case Standing::kKept: return "kept";
    case Standing::kTie: return "tie";
    case Standing::kDropped: break;
  }
  return "dropped";
}

Result<ExtendPlan> plan_extend(const Measurements& measurements, const ExtendRequest& request, const SpeedModel& speed) {
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
  const auto seconds_of = [&](int64_t length) {
    return speed.seconds(scorer.flops(length)) * static_cast<double>(request.windows);
  };
  const auto least = [&](int64_t length) { return static_cast<double>(kFewestPasses) * seconds_of(length); };
  int64_t target = request.target;
  if (least(target) > request.budget) {
    const int64_t step = std::max<int64_t>(1, std::min<int64_t>(1024, request.trained / 8));
    while (target - step > request.trained && least(target) > request.budget) target -= step;
    target = std::max(target - target % step, request.trained + step);
    plan.notes.push_back(fmt::format("a budget of {} does not reach {} tokens: measured to {} instead",
                                     human_seconds(request.budget), request.target, target));
  }
  ROPEWALK_TRY(std::vector<WindowSet> sets, make_windows(measurements.corpus(), {target}, request.windows, plan.notes));
  plan.final_set = std::move(sets.front());
  plan.target = plan.final_set.length;
  if (plan.target <= request.trained + 1) {
    return fail(
        ErrorCode::kInvalidArgument,
        "[extend] expected a text of more than {} tokens, the trained length, but got {}; give a longer one with --text",
        request.trained, plan.target);
  }
  plan.rungs = rungs_below(request.trained, plan.target, scorer);
  plan.memory = scorer.memory(plan.target);
  plan.memory_available = available_memory();
  double rungs = 0;
  for (const int64_t rung : plan.rungs) rungs += seconds_of(rung);
  const double n = static_cast<double>(request.candidates.size());
  const double restart = 2 * static_cast<double>(plan.target - request.trained) / static_cast<double>(request.trained) *
                         seconds_of(request.trained);
  plan.seconds_least =
      std::min(request.budget, 2 * seconds_of(plan.target) + n * (plan.rungs.empty() ? 0 : seconds_of(plan.rungs[0])));
  plan.seconds_most = std::min(request.budget, n * (seconds_of(plan.target) + rungs) + restart);
  return plan;
}

Result<ExtendResult> run_extend(Measurements& measurements, const ExtendRequest& request, const ExtendPlan& plan,
                                SpeedModel speed, const Control& control, const ExtendEvents& events) {
  const int64_t trained = request.trained;
  const uint64_t seed = request.summary.seed;
  ExtendResult result;
  result.asked = request.target;
  result.target = plan.target;
  result.eval.notes = plan.notes;
  Runner runner(measurements, request, speed, control);
  const auto say = [&](const std::string& line) {
    if (events.say) events.say(line);
  };
  for (const Candidate& candidate : request.candidates) {
    CandidateResult c;
    c.setting = candidate.setting;
    c.expressible = !request.expressible || request.expressible(candidate.setting);
    result.candidates.push_back(c);
  }
  std::vector<size_t> alive;
  for (size_t i = 0; i < request.candidates.size(); ++i) alive.push_back(i);
  const std::string& none = request.candidates.front().setting;
  bool stopped = false, out_of_time = false;

  // What is left at most, for progress: every candidate still alive at every length still to come.
  const auto expect_from = [&](size_t rung) {
    double flops = 0;
    for (const size_t i : alive) {
      for (size_t r = rung; r < plan.rungs.size(); ++r)
        flops += runner.cost(request.candidates[i].setting, shortened(plan.final_set, plan.rungs[r]));
      flops += runner.cost(request.candidates[i].setting, plan.final_set);
    }
    runner.expect(flops);
  };
  // true: measured. Otherwise why not is noted.
  const auto measure = [&](size_t i, const WindowSet& set) -> Result<bool> {
    CandidateResult& c = result.candidates[i];
    ROPEWALK_TRY(const Runner::Outcome outcome, runner.run(c.setting, set));
    if (outcome == Runner::Outcome::kOutOfTime) {
      out_of_time = true;
      c.standing = Standing::kDropped;
      c.why = fmt::format("not measured at {} tokens: the budget of {} was spent", set.length, human_seconds(request.budget));
      say(fmt::format("{}: {}", c.setting, c.why));
      return false;
    }
    stopped = outcome == Runner::Outcome::kStopped;
    const bool known =
        std::all_of(set.windows.begin(), set.windows.end(), [&](const Window& w) { return measurements.known(c.setting, w); });
    if (!known) return false;
    if (events.row) {
      ROPEWALK_TRY(const Sample sample, gather(measurements, c.setting, set, control));
      events.row(summarize(sample, request.summary));
    }
    return true;
  };
  const auto drop = [&](size_t i, int64_t length, std::string why) {
    result.candidates[i].standing = Standing::kDropped;
    result.candidates[i].dropped_at = length;
    result.candidates[i].why = std::move(why);
    say(fmt::format("{} is dropped: {}", result.candidates[i].setting, result.candidates[i].why));
  };

  // The problem first: the model as it is, at the target.
  expect_from(0);
  ROPEWALK_TRY(const bool have_none, measure(0, plan.final_set));

  for (size_t r = 0; r < plan.rungs.size() && have_none && !stopped; ++r) {
    const WindowSet set = shortened(plan.final_set, plan.rungs[r]);
    ROPEWALK_TRY(const Sample base, gather(measurements, none, set, control));
    expect_from(r);
    std::vector<std::pair<size_t, Sample>> measured;
    for (const size_t i : alive) {
      if (i == 0 || stopped || out_of_time) continue;
      ROPEWALK_TRY(const bool have, measure(i, set));
      if (!have) continue;
      ROPEWALK_TRY(Sample sample, gather(measurements, request.candidates[i].setting, set, control));
      measured.emplace_back(i, std::move(sample));
    }
    if (stopped) break;
    for (const auto& [i, sample] : measured) {
      if (set.length <= trained) {
        const Interval price = compare_range(base, sample, {0, set.length}, seed).delta;
        if (price.low > kTooDear) {
          drop(i, set.length,
               fmt::format("it costs {} nats a token over the first {}, where the model needs no help", interval_text(price),
                           set.length));
        }
        continue;
      }
      for (const auto& [j, rival] : measured) {
        if (i == j || request.candidates[j].reach < request.candidates[i].reach ||
            result.candidates[j].standing == Standing::kDropped)
          continue;
        const Interval far = compare_range(rival, sample, {trained, set.length}, seed).delta;
        const Interval near = compare_range(rival, sample, {0, trained}, seed).delta;
        if (far.low > kClearly && near.low > -kClearly) {
          drop(i, set.length,
               fmt::format("at {} tokens it is {} nats behind {}, which reaches as far", set.length, interval_text(far),
                           rival.setting));
          break;
        }
      }
    }
    std::erase_if(alive, [&](size_t i) { return i != 0 && result.candidates[i].standing == Standing::kDropped; });
  }

  // The target, in the order of the candidates.
  std::vector<Finalist> finalists;
  std::vector<size_t> finalist_of;
  expect_from(plan.rungs.size());
  for (const size_t i : alive) {
    if (!have_none || stopped) break;
    if (i != 0) {
      ROPEWALK_TRY(const bool have, measure(i, plan.final_set));
      if (!have) continue;
    }
    ROPEWALK_TRY(Sample sample, gather(measurements, request.candidates[i].setting, plan.final_set, control));
    finalists.push_back({request.candidates[i], std::move(sample), result.candidates[i].expressible});
    finalist_of.push_back(i);
  }
  result.eval.complete = have_none && !stopped;

  if (!finalists.empty() && result.eval.complete) {
    const Decision decision = decide(finalists, trained, request.short_weight, seed);
    const Finalist& winner = finalists[decision.winner];
    for (size_t f = 0; f < finalists.size(); ++f) {
      CandidateResult& c = result.candidates[finalist_of[f]];
      if (f != 0) {
        c.price = decision.price[f];
        c.gain = decision.gain[f];
        result.price.push_back(compare_range(finalists[0].sample, finalists[f].sample, {0, trained}, seed));
      }
      if (f == decision.winner) {
        c.why = "recommended";
        continue;
      }
      const Interval& behind = decision.behind[f];
      c.standing = behind.low > 0 ? Standing::kDropped : Standing::kTie;
      if (c.standing == Standing::kDropped) c.dropped_at = plan.target;
      c.why = fmt::format("{} nats against {}, long and short together", interval_text(behind), winner.candidate.setting);
    }
    // Does the winner use what lies far back? The unchanged model, started afresh within L0, on the same tokens.
    for (int64_t from = trained; from < plan.target - 1 && !stopped; from += trained / 2) {
      const int64_t to = std::min(from + trained / 2, plan.target);
      // Predicting position p of the long window is position p - start of the fresh one; a BOS shifts both alike. The last
      // score of a stretch needs the token after it.
      const int64_t start = from - trained / 2;
      WindowSet fresh{trained, std::min(to + 1, plan.target) - start, plan.final_set.windows};
      for (Window& w : fresh.windows) {
        w.start += start;
        w.length = fresh.length;
      }
      runner.expect(runner.cost(none, fresh));
      ROPEWALK_TRY(const Runner::Outcome outcome, runner.run(none, fresh));
      stopped = outcome == Runner::Outcome::kStopped;
      if (outcome != Runner::Outcome::kDone) {
        if (outcome == Runner::Outcome::kOutOfTime)
          result.eval.notes.push_back("the budget left no time to compare with a fresh window past " + std::to_string(from));
        break;
      }
      ROPEWALK_TRY(const Sample afresh, gather(measurements, none, fresh, control));
      Sample tail = winner.sample, other = winner.sample;
      other.setting = fmt::format("{} in a fresh window", none);
      for (size_t w = 0; w < tail.windows.size(); ++w) {
        for (int64_t p = from; p < to && p < static_cast<int64_t>(tail.windows[w].size()); ++p) {
          other.windows[w][static_cast<size_t>(p)] = afresh.windows[w][static_cast<size_t>(p - start)];
        }
      }
      result.restart.push_back(compare_range(other, tail, {from, to}, seed));
    }
    Recommendation& recommendation = result.recommendation;
    recommendation.setting = winner.candidate.setting;
    recommendation.gain = decision.gain[decision.winner];
    recommendation.short_cost = decision.price[decision.winner];
    if (decision.runner_up != decision.winner) recommendation.runner_up = finalists[decision.runner_up].candidate.setting;
    recommendation.reason = reasons(finalists, decision, trained, plan.target, seed);
    recommendation.usable_to =
        std::min(plan.target, usable_to(winner.sample, finalists[0].sample, result.restart, trained, seed));
    if (!result.restart.empty()) {
      const PairRow& last = result.restart.back();
      recommendation.reason.push_back(
          fmt::format("From position {} to {}, reading everything changes the loss by {} nats a token against the unmodified "
                      "model that sees the last {} to {} tokens only.",
                      last.bucket.from, last.bucket.to, interval_text(last.delta), trained / 2, trained));
    }
    if (plan.target < request.target) {
      recommendation.reason.push_back(
          fmt::format("Nothing is claimed past {} tokens: {} were asked for, but not measured.", plan.target, request.target));
    }
  }

  // The tables: every setting at every length that was measured.
  EvalRequest tables;
  for (const Candidate& candidate : request.candidates) tables.settings.push_back(candidate.setting);
  tables.summary = request.summary;
  EvalPlan all;
  for (const int64_t rung : plan.rungs) all.sets.push_back(shortened(plan.final_set, rung));
  all.sets.push_back(plan.final_set);
  ROPEWALK_TRY(EvalResult rows, run_eval(measurements, tables, all, {}));
  rows.complete = result.eval.complete;
  rows.notes = std::move(result.eval.notes);
  result.eval = std::move(rows);
  result.seconds = runner.elapsed();
  runner.finished();
  return result;
}

}  // namespace ropewalk
