// What long work is given by its caller: a way to be stopped, a place to report to, and a place for notes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

namespace ropewalk {

enum class LogLevel { kNote, kWarning };

struct Control {
  const std::atomic<bool>* stop = nullptr;                  // set by the caller, e.g. on SIGINT; read between blocks
  std::function<void(double done, double total)> progress;  // work units; called on the calling thread
  std::function<void(LogLevel, std::string_view message)> log;

  bool stopped() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
  void note(LogLevel level, std::string_view message) const {
    if (log) log(level, message);
  }
};

}  // namespace ropewalk
