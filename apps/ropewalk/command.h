// A subcommand: one file cmd_NAME.cc that defines add_NAME, one line in commands.inc.
//
//   void add_tokens(CLI::App& app) {
//     CLI::App& command = add_command(app, "tokens", "Text to token ids", {"ropewalk tokens model.gguf --prompt \"To be\""});
//     auto options = std::make_shared<Options>();          // outlives parsing: captured by the lambda
//     add_common(command, options->common);
//     command.add_option("model", options->model, "a .gguf file or a folder")->required();
//     set_run(command, [options] { return run(*options); });
//   }
#pragma once

#include <CLI/CLI.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/control.h"
#include "ropewalk/error.h"

namespace ropewalk::app {

// Documented exit codes (docs/command-line.md).
enum ExitCode : int { kDone = 0, kBadInput = 1, kBadUsage = 2, kCheckFailed = 3, kInterrupted = 130 };

// The flags that every command has.
struct Common {
  std::string json;    // --json FILE, "-" = standard output; empty = none
  bool quiet = false;  // --quiet
  int threads = 0;     // --threads; the available cores when not given
  uint64_t seed = 0;   // --seed
};

// A subcommand with its one-line description and examples, which --help ends with ("# text" lines are comments).
CLI::App& add_command(CLI::App& parent, const std::string& name, const std::string& title,
                      std::initializer_list<const char*> examples);

// Registers the common flags on a subcommand. A value out of range is an error of use; a --json path that cannot be written is
// found here, before the work starts, and is exit code 1.
void add_common(CLI::App& command, Common& common);

// A command reports what it ran through its return value; an Error becomes exit code 1 (130 when kInterrupted, 2 when the
// command throws CLI::ParseError) with its message on standard error.
using Run = std::function<Result<int>()>;
// Ties a subcommand to the function that runs it.
void set_run(CLI::App& command, Run run);

// Set by SIGINT/SIGTERM; a second signal ends the process at once.
const std::atomic<bool>& stop_requested();

// Control for long work: stop flag, a progress line on standard error (only on a terminal, rate and time left, after 2 s),
// notes. `unit` names what progress counts ("tokens"). The line is cleared when done == total and when the Control goes.
Control make_control(const Common& common, std::string what, std::string unit = "");

// The envelope of interface.md: {"ropewalk", "schema", "command", "model", "machine", ...body}. Written whole or not at all;
// without --json it does nothing. `model` may be null.
Result<void> write_json(const Common& common, const std::string& command, const nlohmann::json& model,
                        const nlohmann::json& body);

// For humans, on standard output; nothing when --json - owns it. Text is written as it is, with no newline added.
void print(const Common& common, const std::string& text);
// A note on standard error, one line; nothing with --quiet.
void note(const Common& common, const std::string& text);

// "8192", "8k", "1m"; "90s", "10m"; "512mb", "4gb". Errors: kInvalidArgument, naming `flag`, what is expected and what was
// found. k and m are 1024 and 1048576; kb, mb, gb, tb are powers of 1024 as well. Lengths and sizes are >= 1, times > 0.
Result<int64_t> parse_length(const std::string& text, const std::string& flag);
Result<std::vector<int64_t>> parse_lengths(const std::string& list, const std::string& flag);  // "2k,8k"
Result<double> parse_seconds(const std::string& text, const std::string& flag);                // "90s", "10m", "2h", "1.5h"
Result<int64_t> parse_bytes(const std::string& text, const std::string& flag);
Result<int64_t> parse_integer(const std::string& text, int64_t low, int64_t high, const std::string& flag);

// The value, or an error of use (exit code 2) with the Error's message: for what was wrong on the command line itself.
[[noreturn]] void throw_usage(const Error& error);
template <class T>
T or_usage(Result<T> result) {
  if (!result) throw_usage(result.error());
  return *std::move(result);
}

// Options whose value is a length, a time, a size, or an integer in a range; parsed while the command line is.
CLI::Option* add_length(CLI::App& command, const std::string& flag, int64_t& value, const std::string& help);
CLI::Option* add_lengths(CLI::App& command, const std::string& flag, std::vector<int64_t>& values, const std::string& help);
CLI::Option* add_seconds(CLI::App& command, const std::string& flag, double& value, const std::string& help);
CLI::Option* add_bytes(CLI::App& command, const std::string& flag, int64_t& value, const std::string& help);
CLI::Option* add_integer(CLI::App& command, const std::string& flag, int64_t& value, int64_t low, int64_t high,
                         const std::string& help);

}  // namespace ropewalk::app
