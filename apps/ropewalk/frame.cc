// The frame of every command: flags, errors, exit codes.
#include "frame.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>

#include "base/fail.h"
#include "base/parallel.h"
#include "ropewalk/version.h"

namespace ropewalk::app {

#define COMMAND(name) void add_##name(CLI::App& app);
#include "commands.inc"
#undef COMMAND

namespace {

// More threads than any machine has cores is a typing error, and would only exhaust its stacks.
constexpr int64_t kMaxThreads = 1024;

// Leaves parsing with the exit code of a command that ran.
struct Finished {
  int code;
};

Result<void> check_writable(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return fail(ErrorCode::kIo, "[--json] {}: expected a file, but got a folder", path);
  if (fs::exists(path, ignored) && access(path.c_str(), W_OK) != 0) {
    return fail(ErrorCode::kIo, "[--json] {}: cannot write: {}", path, std::strerror(errno));
  }
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (access(folder.c_str(), W_OK | X_OK) != 0 && !fs::exists(path, ignored)) {
    return fail(ErrorCode::kIo, "[--json] {}: cannot write into the folder {}: {}", path, folder.string(),
                std::strerror(errno));
  }
  return {};
}

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// The command that the arguments had reached: "ropewalk bench rope".
const CLI::App& deepest(const CLI::App& app, std::string& path) {
  const CLI::App* at = &app;
  path = app.get_name();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    path += ' ' + at->get_name();
  }
  return *at;
}

std::string suggestion_for(const CLI::App& command, const std::string& word) {
  std::vector<std::string> known;
  if (word.starts_with('-')) {
    for (const CLI::Option* option : command.get_options()) {
      for (const auto& name : option->get_lnames()) known.push_back("--" + name);
    }
  } else {
    known = subcommand_names(command);
  }
  const std::string best = nearest(word.substr(0, word.find('=')), known);
  return best.empty() ? "" : fmt::format("; did you mean '{}'?", best);
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string path;
  const CLI::App& command = deepest(app, path);
  std::string message = error.what();
  // CLI11 keeps what nobody took at the root, in order.
  const auto extras = app.remaining(true);
  const bool needs_command = command.get_require_subcommand_min() > 0;
  if (!extras.empty() && (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) || needs_command)) {
    const std::string& word = extras.front();
    message = fmt::format("[command line] unknown {} '{}'{}", needs_command && !word.starts_with('-') ? "command" : "argument",
                          word, suggestion_for(command, word));
  } else if (!message.starts_with('[')) {
    message = "[command line] " + message;
  }
  fmt::print(stderr, "{}\nSee: {} --help\n", message, path);
  return kBadUsage;
}

int run_error(const Error& error) {
  fmt::print(stderr, "{}\n", error.message());
  return error.code() == ErrorCode::kInterrupted ? kInterrupted : kBadInput;
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

CLI::App& add_command(CLI::App& parent, const std::string& name, const std::string& title,
                      std::initializer_list<const char*> examples) {
  CLI::App& command = *parent.add_subcommand(name, title);
  std::string footer = "Examples:";
  for (const char* example : examples) footer += std::string("\n  ") + example;
  command.footer(footer);
  command.get_formatter()->column_width(34);
  return command;
}

void add_common(CLI::App& command, Common& common) {
  common.threads = available_cores();
  const char* group = "Common";
  command.add_option("--json", common.json, "write the results as JSON; - is standard output")
      ->type_name("FILE")
      ->group(group)
      ->each([](const std::string& path) {
        if (path != "-") check_writable(path).value();  // throws Error, which is exit code 1
      });
  command.add_flag("--quiet", common.quiet, "no progress and no notes on standard error")->group(group);
  command
      .add_option_function<std::string>(
          "--threads",
          [&common](const std::string& text) {
            common.threads = static_cast<int>(or_usage(parse_integer(text, 1, kMaxThreads, "--threads")));
          },
          fmt::format("threads to use (default {}: the cores this process may use)", common.threads))
      ->type_name("N")
      ->group(group);
  command
      .add_option_function<std::string>(
          "--seed",
          [&common](const std::string& text) {
            common.seed =
                static_cast<uint64_t>(or_usage(parse_integer(text, 0, std::numeric_limits<int64_t>::max(), "--seed")));
          },
          "seed of everything random (default 0)")
      ->type_name("N")
      ->group(group);
}

void set_run(CLI::App& command, Run run) {
  command.callback([run = std::move(run)] { throw Finished{run().value()}; });
}

void print(const Common& common, const std::string& text) {
  if (common.json == "-") return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);  // a row of a long run shows when it is there, through a pipe too
}

void note(const Common& common, const std::string& text) {
  if (!common.quiet) fmt::print(stderr, "{}\n", text);
}

void build_app(CLI::App& app) {
  app.name("ropewalk");
  app.description("Ropewalk: how far can this model read, with which setting, at what cost?");
  app.set_version_flag("--version", std::string("ropewalk ") + ROPEWALK_VERSION);
  app.get_formatter()->column_width(20);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.get_formatter()->label("Subcommands", "Commands");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  ropewalk inspect model.gguf                        # what the position scheme is\n"
      "  ropewalk eval model.gguf --text book.txt --lengths 2k,16k --rope none,ntk:2\n"
      "  ropewalk extend model.gguf --to 32k --text book.txt --out report\n"
      "  ropewalk COMMAND --help                            # each command teaches by example");
#define COMMAND(name) add_##name(app);
#include "commands.inc"
#undef COMMAND
}

int run_program(int argc, const char* const* argv) {
  CLI::App app;
  build_app(app);
  try {
    app.parse(argc, argv);
  } catch (const Finished& finished) {
    return finished.code;
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error);
  } catch (const Error& error) {
    return run_error(error);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "[memory] not enough memory for this\n");
    return kBadInput;
  }
  return kDone;
}

int finish_output(int code) {
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed || errno == EPIPE) return code;
  fmt::print(stderr, "[standard output] cannot write: {}\n", std::strerror(errno));
  return code == kDone ? kBadInput : code;
}

}  // namespace ropewalk::app
