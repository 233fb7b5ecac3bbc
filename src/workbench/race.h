// The race of `extend`: which passes are made, in which order, and what each of them settles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workbench/extend.h"
#include "workbench/recommend.h"

namespace ropewalk {

class Race {
 public:
  Race(Measurements& measurements, const ExtendRequest& request, const ExtendPlan& plan, SpeedModel speed,
       const Control& control, const ExtendEvents& events);
  Result<ExtendResult> run();

 private:
  // What a pass may take of the budget.
  struct Leave {
    bool must = false;   // whatever the budget: an estimate alone must not leave the question without an answer
    double reserve = 0;  // operations that must still be affordable afterwards
  };
  enum class Outcome { kDone, kOutOfTime, kStopped };

  Result<Outcome> pass(const std::string& setting, const WindowSet& set, Leave leave);
  // True: the candidate is measured there. Otherwise its result says why not.
  Result<bool> measure(size_t candidate, const WindowSet& set, Leave leave);
  Result<void> measure_rung(int64_t length);
  void judge_first_look(const WindowSet& set, const std::vector<std::pair<size_t, Sample>>& measured);
  void judge_middle(const WindowSet& set, const std::vector<std::pair<size_t, Sample>>& measured);
  Result<void> measure_finals();
  Result<void> decide_and_explain();
  Result<void> compare_with_fresh_windows(const Sample& winner);
  Result<void> make_tables();

  void drop(size_t candidate, int64_t length, std::string why);
  void say(const std::string& line) const;
  void expect_from(size_t rung);
  double cost(const std::string& setting, const WindowSet& set) const;
  double fresh_cost() const;
  double elapsed() const;
  const std::string& setting_of(size_t candidate) const { return request_.candidates[candidate].setting; }

  Measurements& measurements_;
  const ExtendRequest& request_;
  const ExtendPlan& plan_;
  SpeedModel speed_;
  const Control& control_;
  const ExtendEvents& events_;
  double start_;
  double done_ = 0, left_ = 0;  // operations: made, and expected at most
  bool stopped_ = false;
  std::vector<size_t> alive_;  // candidates still in the race; 0, the model as it is, always
  std::vector<Finalist> finalists_;
  std::vector<size_t> finalist_of_;  // candidate of each finalist
  ExtendResult result_;
};

}  // namespace ropewalk
