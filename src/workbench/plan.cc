#include "workbench/plan.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>

#include "base/fail.h"
#include "base/machine.h"

namespace ropewalk {
namespace {

// Of the windows that time a scorer.
constexpr size_t kShortest = 256;  // tokens
constexpr double kLongEnough = 4;  // seconds: a large model is not made to read more

int64_t address_space_in_use() {
  std::ifstream in("/proc/self/statm");
  int64_t pages = 0;
  return in >> pages ? pages * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace

Result<SpeedModel> SpeedModel::measure(const Measurements& measurements, const std::string& setting, const Control& control,
                                       int64_t length) {
  const Corpus& corpus = measurements.corpus();
  Window window{0, 0, length};
  for (size_t t = 0; t < corpus.texts.size(); ++t) {
    if (corpus.texts[t].ids.size() > corpus.texts[static_cast<size_t>(window.text)].ids.size())
      window.text = static_cast<int>(t);
  }
  std::vector<int32_t> tokens = window_tokens(corpus, window);
  if (tokens.size() < 2)
    return fail(ErrorCode::kInvalidArgument, "[plan] expected a text of at least 2 tokens, but got {}", tokens.size());
  const Scorer& scorer = measurements.scorer();
  Control quiet = control;
  quiet.progress = nullptr;
  // The first pass expands weights and makes kernels, which later ones find ready, so there are at least two.
  for (size_t n = std::min(tokens.size(), kShortest);; n = std::min(tokens.size(), 4 * n)) {
    const auto before = std::chrono::steady_clock::now();
    ROPEWALK_TRY(const std::vector<double> nll, scorer.score(setting, std::span<const int32_t>(tokens).first(n), quiet));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
    if (n == tokens.size() || took.count() > kLongEnough)
      return SpeedModel(scorer.flops(static_cast<int64_t>(n)) / std::max(took.count(), 1e-6));
  }
}

void SpeedModel::learn(double flops, double seconds) {
  if (!(seconds > 0) || !(flops > 0)) return;
  rate_ = std::exp(0.3 * std::log(rate_) + 0.7 * std::log(flops / seconds));
}

Plan make_plan(const Measurements& measurements, const std::vector<std::string>& settings, const std::vector<WindowSet>& sets) {
  Plan plan;
  const Scorer& scorer = measurements.scorer();
  plan.memory_available = available_memory();
  for (const std::string& setting : settings) {
    std::vector<Window> planned;
    for (auto set = sets.rbegin(); set != sets.rend(); ++set) {
      for (const Window& window : set->windows) {
        const bool covered =
            measurements.known(setting, window) || std::any_of(planned.begin(), planned.end(), [&](const Window& longer) {
              return longer.text == window.text && longer.start == window.start && longer.length >= window.length &&
                     (longer.length == window.length || scorer.prefix_equal(setting, window.length, longer.length));
            });
        if (covered) {
          ++plan.shared;
          continue;
        }
        planned.push_back(window);
        plan.tasks.push_back({setting, window});
        plan.flops += scorer.flops(window.length);
        plan.memory = std::max(plan.memory, scorer.memory(window.length));
      }
    }
  }
  return plan;
}

int64_t available_memory() {
  int64_t best = memory_available();
  if (best <= 0) best = std::numeric_limits<int64_t>::max();  // the system does not say
  rlimit address{};
  if (getrlimit(RLIMIT_AS, &address) == 0 && address.rlim_cur != RLIM_INFINITY) {
    const auto limit = static_cast<int64_t>(std::min<rlim_t>(address.rlim_cur, std::numeric_limits<int64_t>::max()));
    best = std::min(best, std::max<int64_t>(0, limit - address_space_in_use()));
  }
  return best;
}

Result<void> check_memory(const Plan& plan, int64_t length) {
  if (plan.memory <= plan.memory_available) return {};
  return fail(ErrorCode::kTooLarge,
              "[plan] a window of {} tokens needs {} of memory, but {} is available; ask for a shorter length", length,
              human_bytes(plan.memory), human_bytes(plan.memory_available));
}

Control part_of(const Control& control, double done, double share, double total) {
  Control part = control;
  if (control.progress) {
    part.progress = [&control, done, share, total](double at, double of) {
      control.progress(done + share * (of > 0 ? std::clamp(at / of, 0.0, 1.0) : 0), total);
    };
  }
  return part;
}

std::string human_seconds(double seconds) {
  if (!(seconds < 1e12)) return "unknown";  // and what no integer holds
  const auto s = static_cast<int64_t>(std::ceil(seconds));
  if (s < 100) return fmt::format("{} s", s);
  if (s < 3600) return s % 60 == 0 ? fmt::format("{} min", s / 60) : fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

std::string human_bytes(int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (b < 1e6) return fmt::format("{:.0f} kB", b / 1e3);
  if (b < 1e9) return fmt::format("{:.0f} MB", b / 1e6);
  return fmt::format("{:.1f} GB", b / 1e9);
}

}  // namespace ropewalk
