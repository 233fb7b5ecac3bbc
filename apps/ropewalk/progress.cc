// Stopping on signals, and the progress line.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "command.h"
#include "frame.h"
#include "terminal.h"

namespace ropewalk::app {
namespace {

std::atomic<bool> stop_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

extern "C" void on_signal(int signal_number) {
  if (stop_flag.exchange(true)) {
    // The user insists. Nothing half-written has a final name, so ending here is safe.
    _exit(kInterrupted);
  }
  static const char text[] = "\nstopping: finished results will be kept; once more to stop at once\n";
  if (signal_number == SIGINT && isatty(STDERR_FILENO) == 1) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);
  }
}

using Clock = std::chrono::steady_clock;
double seconds_between(Clock::time_point a, Clock::time_point b) { return std::chrono::duration<double>(b - a).count(); }

// Shared by the copies of one Control.
class ProgressLine {
 public:
  ProgressLine(std::string what, std::string unit, bool shown)
      : what_(std::move(what)), unit_(std::move(unit)), shown_(shown) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  void update(double done, double total) {
    if (!shown_) return;
    const auto now = Clock::now();
    if (done < last_done_ || total != total_) {  // the next piece of work begins
      start_ = now;
      first_done_ = done;
      total_ = total;
    }
    last_done_ = done;
    if (done >= total) return clear();
    const double elapsed = seconds_between(start_, now);
    if (elapsed < kQuietSeconds || (drawn_ && seconds_between(last_draw_, now) < kRedrawSeconds)) return;
    std::fputs(("\r\x1b[K" + progress_text(what_, unit_, done - first_done_, total - first_done_, elapsed)).c_str(), stderr);
    std::fflush(stderr);
    drawn_ = true;
    last_draw_ = now;
  }

  void clear() {
    if (!drawn_) return;
    std::fputs("\r\x1b[K", stderr);
    std::fflush(stderr);
    drawn_ = false;
  }

 private:
  static constexpr double kQuietSeconds = 2, kRedrawSeconds = 0.1;
  std::string what_, unit_;
  bool shown_, drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_draw_;
  double first_done_ = 0, last_done_ = 0, total_ = -1;
};

}  // namespace

std::string progress_text(const std::string& what, const std::string& unit, double done, double total, double elapsed) {
  const double rate = elapsed > 0 ? done / elapsed : 0;
  std::string text = fmt::format("{}  {:3.0f}%", what, total > 0 ? std::clamp(100 * done / total, 0.0, 100.0) : 0.0);
  if (rate > 0) {
    text += fmt::format("  {}{}{}/s  {} left", short_number(rate), unit.empty() ? "" : " ", unit,
                        short_time((total - done) / rate));
  }
  return text;
}

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A reader that went away must not end a run whose results are still to be saved; finish_output() looks at the error.
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

const std::atomic<bool>& stop_requested() { return stop_flag; }

Control make_control(const Common& common, std::string what, std::string unit) {
  const bool shown = !common.quiet && isatty(STDERR_FILENO) == 1;
  const auto line = std::make_shared<ProgressLine>(std::move(what), std::move(unit), shown);
  Control control;
  control.stop = &stop_flag;
  control.progress = [line](double done, double total) { line->update(done, total); };
  control.log = [line, quiet = common.quiet](LogLevel level, std::string_view message) {
    if (quiet) return;
    line->clear();
    fmt::print(stderr, "{}: {}\n", level == LogLevel::kWarning ? "warning" : "note", message);
  };
  return control;
}

}  // namespace ropewalk::app
