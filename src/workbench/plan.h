// What will run, how long it is expected to take and how much memory it needs: shown before anything long starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/control.h"
#include "ropewalk/error.h"
#include "workbench/measure.h"

namespace ropewalk {

struct Task {
  std::string setting;
  Window window;
};

struct Plan {
  std::vector<Task> tasks;  // passes that are still to be made, in order
  int64_t shared = 0;       // measurements that come from a longer pass or from an earlier run
  double flops = 0;
  double seconds = 0;  // expected
  int64_t memory = 0;  // expected peak, bytes
  int64_t memory_available = 0;
  std::vector<std::string> notes;  // what gave way, how settings were read
};

// Operations a second of this scorer on this machine: measured on a short window once, then kept up to date by every pass.
class SpeedModel {
 public:
  // Times windows of 256 tokens and more, to `length` or until one took 4 seconds. Longer is truer: 512 tokens of a small model
  // ran at two thirds of the rate of 4096.
  static Result<SpeedModel> measure(const Measurements& measurements, const std::string& setting, const Control& control,
                                    int64_t length = 512);
  explicit SpeedModel(double flops_per_second) : rate_(flops_per_second) {}
  double seconds(double flops) const { return flops / rate_; }
  double rate() const { return rate_; }
  // A finished pass: recent passes count more, because long windows run at another rate than short ones.
  void learn(double flops, double seconds);

 private:
  double rate_ = 1;
};

// Every (setting, window) once; a window that a longer one of the same setting gives exactly needs no pass. Setting by setting,
// long first.
Plan make_plan(const Measurements& measurements, const std::vector<std::string>& settings, const std::vector<WindowSet>& sets);

// Memory that a new allocation can have: the least of what the system says is available, the cgroup's limit and the process's
// own.
int64_t available_memory();
// Errors: kTooLarge with both numbers, when the plan's memory is more than what is there.
Result<void> check_memory(const Plan& plan, int64_t length);

// Progress of several passes as one: the pass's own progress is scaled to its share.
Control part_of(const Control& control, double done, double share, double total);

std::string human_seconds(double seconds);  // "45 s", "3 min 20 s", "2 h 5 min"
std::string human_bytes(int64_t bytes);     // "1.5 GB" (10^9)

}  // namespace ropewalk
