// What the kinds of `bench` share: flags, the table, the JSON.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/fail.h"
#include "command.h"
#include "workbench/bench/bench.h"
#include "workbench/bench/cases.h"

namespace ropewalk::app {

struct BenchCommand {
  Common common;
  BenchOptions bench;
  int64_t min_runs = 5;
};

// `ropewalk bench NAME` with the flags that every kind has.
CLI::App& add_bench_kind(CLI::App& bench, const std::string& name, const std::string& title, BenchCommand& command,
                         std::initializer_list<const char*> examples);

using Bench = std::function<Result<BenchReport>(const BenchOptions&, const Control&)>;
// Runs it, prints the table, writes the JSON. Exit code 3 where an answer was wrong, 2 where the shape asked for is impossible.
Result<int> run_bench(const BenchCommand& command, const std::string& name, const nlohmann::json& model, const Bench& bench);

// A whole number in [1, high].
CLI::Option* add_count(CLI::App& command, const std::string& flag, int& value, int high, const std::string& help);

// Words of a list such as "f32,bf16", each one of `known`; anything else is an error of use.
template <class T>
std::vector<T> choices(const std::string& text, const std::string& flag, const std::map<std::string, T>& known) {
  std::vector<T> values;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, comma - begin);
    const auto found = known.find(word);
    if (found == known.end()) {
      std::string names;
      for (const auto& [name, value] : known) names += (names.empty() ? "" : ", ") + name;
      throw_usage(fail(ErrorCode::kInvalidArgument, "[command line] {}: expected some of {}, but got '{}'", flag, names, word));
    }
    values.push_back(found->second);
    begin = comma + 1;
  }
  return values;
}
template <class T>
CLI::Option* add_choices(CLI::App& command, const std::string& flag, std::vector<T>& values, std::map<std::string, T> known,
                         const std::string& help) {
  return command
      .add_option_function<std::string>(
          flag, [&values, known = std::move(known), flag](const std::string& text) { values = choices(text, flag, known); },
          help)
      ->type_name("NAME,..");
}
template <class T>
CLI::Option* add_choice(CLI::App& command, const std::string& flag, T& value, std::map<std::string, T> known,
                        const std::string& help) {
  return command
      .add_option_function<std::string>(
          flag,
          [&value, known = std::move(known), flag](const std::string& text) { value = choices(text, flag, known).back(); },
          help)
      ->type_name("NAME");
}
std::map<std::string, DType> dtype_names();      // f32, bf16, f16
std::map<std::string, DType> precision_names();  // f32, bf16, exact, fast

void add_bench_kernels(CLI::App& bench);  // bench_kernels.cc: stream, peak, rope, attention, decode, matmul
void add_bench_model(CLI::App& bench);    // bench_model.cc

}  // namespace ropewalk::app
