// A subcommand: one file cmd_NAME.cc that defines add_NAME, one line in commands.inc.
#pragma once

#include <CLI/CLI.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/control.h"
#include "ropewalk/error.h"

namespace ropewalk::app {

// Documented exit codes (docs/command-line.md).
enum ExitCode : int { kDone = 0, kBadInput = 1, kBadUsage = 2, kCheckFailed = 3, kInterrupted = 130 };

// The flags that every command has.
struct Common {
  std::string json;      // --json FILE, "-" = standard output; empty = none
  bool quiet = false;    // --quiet
  int threads = 0;       // --threads; resolved to the available cores when 0
  uint64_t seed = 0;     // --seed
};

// Registers the common flags on a subcommand.
void add_common(CLI::App& command, Common& common);

// A command reports what it ran through its return value; an Error becomes exit code 1 (130 when kInterrupted, 2 when the command
// throws CLI::ParseError) with its message on standard error.
using Run = std::function<Result<int>()>;
// Ties a subcommand to the function that runs it.
void set_run(CLI::App& command, Run run);

// Set by SIGINT/SIGTERM; a second signal ends the process at once.
const std::atomic<bool>& stop_requested();

// Control for long work: stop flag, a progress line on standard error (only on a terminal, rate and time left, after 2 s), notes.
Control make_control(const Common& common, std::string what);

// The envelope of interface.md: {"ropewalk", "schema", "command", "model", "machine", ...body}. Written whole or not at all.
Result<void> write_json(const Common& common, const std::string& command, const nlohmann::json& model, const nlohmann::json& body);

// "8192", "8k", "1m"; "90s", "10m"; "512mb", "4gb". Errors: kInvalidArgument, naming `flag`, what is expected and what was found.
Result<int64_t> parse_length(const std::string& text, const std::string& flag);
Result<double> parse_seconds(const std::string& text, const std::string& flag);
Result<int64_t> parse_bytes(const std::string& text, const std::string& flag);

}  // namespace ropewalk::app
