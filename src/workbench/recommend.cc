#include "workbench/recommend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ropewalk {
namespace {

constexpr double kLevelMargin = 0.1;    // nats
constexpr double kWorthLoading = 0.02;  // nats: what a setting that no server loads must be better by to be recommended

Bucket below(int64_t trained) { return {0, trained}; }
Bucket past(const Sample& sample, int64_t trained) { return {trained, sample.length}; }

double half(const Interval& i) { return (i.high - i.low) / 2; }

}  // namespace

std::string signed_nats(double x) { return fmt::format("{:+.3f}", x); }

std::string interval_text(const Interval& i) {
  return fmt::format("{} ({} to {})", signed_nats(i.mean), signed_nats(i.low), signed_nats(i.high));
}

Interval objective_delta(const Sample& a, const Sample& b, int64_t trained, double short_weight, uint64_t seed) {
  const Interval far = compare_range(a, b, past(a, trained), seed).delta;
  const Interval near = compare_range(a, b, below(trained), seed).delta;
  Interval out;
  out.mean = far.mean + short_weight * near.mean;
  const double width = std::hypot(half(far), short_weight * half(near));
  out.low = out.mean - width;
  out.high = out.mean + width;
  out.count = far.count + near.count;
  return out;
}

Decision decide(const std::vector<Finalist>& finalists, int64_t trained, double short_weight, uint64_t seed) {
  Decision out;
  std::vector<double> score;  // against the first; lower is better
  for (const Finalist& f : finalists) {
    const bool same = &f == &finalists.front();
    const Sample& none = finalists.front().sample;
    out.price.push_back(same ? Interval{} : compare_range(none, f.sample, below(trained), seed).delta);
    out.gain.push_back(same ? Interval{} : compare_range(none, f.sample, past(none, trained), seed).delta);
    score.push_back(out.gain.back().mean + short_weight * out.price.back().mean);
  }
  const auto best_of = [&](auto&& allowed) {
    size_t best = finalists.size();
    for (size_t i = 0; i < finalists.size(); ++i) {
      if (allowed(i) && (best == finalists.size() || score[i] < score[best])) best = i;
    }
    return best;
  };
  out.best = best_of([](size_t) { return true; });
  out.winner = best_of([&](size_t i) { return finalists[i].expressible; });
  if (out.winner == finalists.size()) out.winner = out.best;
  // A setting that only this program runs must earn it.
  if (out.best != out.winner) {
    const Interval d = objective_delta(finalists[out.winner].sample, finalists[out.best].sample, trained, short_weight, seed);
    if (d.high < -kWorthLoading) out.winner = out.best;
  }
  // No change is the safer choice unless a change is clearly better.
  if (out.winner != 0 &&
      objective_delta(finalists[0].sample, finalists[out.winner].sample, trained, short_weight, seed).high >= 0) {
    out.winner = 0;
  }
  for (size_t i = 0; i < finalists.size(); ++i) {
    out.behind.push_back(i == out.winner
                             ? Interval{}
                             : objective_delta(finalists[out.winner].sample, finalists[i].sample, trained, short_weight, seed));
  }
  out.runner_up = best_of([&](size_t i) { return i != out.winner; });
  if (out.runner_up == finalists.size()) out.runner_up = out.winner;
  return out;
}

std::vector<std::string> reasons(const std::vector<Finalist>& finalists, const Decision& decision, int64_t trained,
                                 int64_t target, uint64_t seed) {
  std::vector<std::string> out;
  const Sample& none = finalists.front().sample;
  const std::string& name = finalists[decision.winner].candidate.setting;
  const Interval inside = range_mean(none, {trained / 2, trained}, seed), outside = range_mean(none, past(none, trained), seed);
  if (outside.mean > inside.mean) {
    out.push_back(
        fmt::format("Left as it is, the model loses {:.3f} nats a token from position {} to {}, against {:.3f} from {} to {}.",
                    outside.mean, trained, target, inside.mean, trained / 2, trained));
  } else {
    out.push_back(fmt::format(
        "Left as it is, the model does not get worse past position {}: {:.3f} nats a token, against {:.3f} before it.", trained,
        outside.mean, inside.mean));
  }
  if (decision.winner == 0) {
    out.push_back(
        "No setting that was measured is clearly better over long and short positions together, so nothing should be changed.");
    return out;
  }
  const Interval& gain = decision.gain[decision.winner];
  const Interval& price = decision.price[decision.winner];
  const auto at = [](const Interval& i) { return interval_text(i); };
  out.push_back(fmt::format("{} changes the loss from position {} on by {} nats a token against the model as it is.", name,
                            trained, at(gain)));
  switch (verdict_of(price)) {
    case Verdict::kTie:
      out.push_back(fmt::format("Below position {} it changes {}: no measurable price.", trained, at(price)));
      break;
    case Verdict::kWorse:
      out.push_back(fmt::format("The price below position {}: {} nats a token.", trained, at(price)));
      break;
    case Verdict::kBetter: out.push_back(fmt::format("Below position {} it is better too: {}.", trained, at(price))); break;
  }
  if (decision.runner_up != decision.winner) {
    const Interval& behind = decision.behind[decision.runner_up];
    const std::string& other = finalists[decision.runner_up].candidate.setting;
    if (behind.low > 0) {
      out.push_back(fmt::format("The runner-up, {}, is {} nats behind, long and short together.", other, at(behind)));
    } else if (behind.high < 0) {
      out.push_back(fmt::format("{} measures better by {} nats, long and short together, but no server can load it.", other,
                                at({.mean = -behind.mean, .low = -behind.high, .high = -behind.low})));
    } else {
      out.push_back(fmt::format("The runner-up, {}, cannot be told apart on this text: {} nats, long and short together.",
                                other, at(behind)));
    }
  }
  if (!finalists[decision.winner].expressible) {
    out.push_back("No server can load this setting: its frequencies follow the position. Ropewalk runs it.");
  }
  return out;
}

int64_t usable_to(const Sample& winner, const Sample& unchanged, const std::vector<PairRow>& restart, int64_t trained,
                  uint64_t seed) {
  if (!restart.empty()) {
    int64_t reach = trained;
    for (const PairRow& row : restart) {
      if (row.verdict == Verdict::kWorse) return reach;
      reach = row.bucket.to;
    }
    return reach;
  }
  const Interval level = range_mean(unchanged, {trained / 2, trained}, seed);
  const int64_t step = std::max<int64_t>(256, (winner.length - trained) / 8);
  int64_t reach = std::min(trained, winner.length);
  while (reach < winner.length - 1) {
    const Bucket stretch{reach, std::min(reach + step, winner.length)};
    if (range_mean(winner, stretch, seed).low > level.high + kLevelMargin) break;
    reach = stretch.to;
  }
  return reach;
}

}  // namespace ropewalk
