// What main() and the tests use of the frame; commands need command.h only.
#pragma once

#include <CLI/CLI.hpp>

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "command.h"
#include "ropewalk/error.h"

namespace ropewalk::app {

// Builds the whole command line: every command of commands.inc.
void build_app(CLI::App& app);

// The program without process state: parses, runs, prints errors to standard error, returns the exit code.
int run_program(int argc, const char* const* argv);

void install_signal_handlers();

// Flushes standard output. A reader that went away (EPIPE) leaves `code`; any other failure, as on a full disk, is kBadInput.
int finish_output(int code);

// "reading hamlet.txt   42%  1.2k tokens/s  3:05 left"
std::string progress_text(const std::string& what, const std::string& unit, double done, double total, double elapsed);

// The envelope as text, without writing it: scalar arrays on one line, NaN and infinities as null, invalid UTF-8 replaced.
std::string envelope_text(const Common& common, const std::string& command, const nlohmann::json& model,
                          const nlohmann::json& body);
// {"cpu", "cores", "threads", "simd", "bf16_dot", "memory_bytes"}
nlohmann::json machine_json(int threads);

// The candidate nearest to `word` in edits, or empty when none is near enough to be what was meant.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace ropewalk::app
