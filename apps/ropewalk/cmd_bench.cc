// bench: speed against the machine's own limits. Each answer is checked before it is timed.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "command.h"
#include "terminal.h"
#include "workbench/bench/bench.h"
#include "workbench/bench/cases.h"

namespace ropewalk::app {
namespace {

struct Options {
  Common common;
  BenchOptions bench;
  int64_t min_runs = 5;
};

std::string format_case(const nlohmann::json& setup) {
  std::string text;
  for (const auto& item : setup.items()) {
    if (item.key() == "threads" || item.key() == "bytes") continue;  // the same in every row
    const std::string value = item.value().is_string() ? item.value().get<std::string>() : item.value().dump();
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", item.key(), value);
  }
  return text;
}

// The table, the JSON, the exit code: 3 where an answer was wrong.
Result<int> finish(const Options& options, const BenchReport& report, const nlohmann::json& model) {
  nlohmann::json rows = nlohmann::json::array();
  std::vector<std::vector<std::string>> cells;
  bool all_right = true;
  for (const BenchRow& row : report.rows) {
    rows.push_back(to_json(row));
    all_right = all_right && row.checked;
    cells.push_back(
        {row.name, format_case(row.setup), fmt::format("{:.3f}", row.median_ms), fmt::format("{}", row.runs),
         fmt::format("{:.1f} {}", row.value, row.unit), fmt::format("{:.1f}", row.limit),
         fmt::format("{:.3f}", row.fraction_of_limit),
         row.checked ? fmt::format("ok, {:.1e}", row.error) : paint(Colour::kRed, fmt::format("WRONG, {:.1e}", row.error))});
  }
  print(options.common,
        format_table({"name", "case", "median ms", "runs", "rate", "limit", "of limit", "answer, error"}, cells));
  const nlohmann::json body = {{"limits", report.limits}, {"rows", rows}};
  if (auto written = write_json(options.common, "bench", model, body); !written) return written.error();
  return all_right ? kDone : kCheckFailed;
}

using Bench = std::function<Result<BenchReport>(const BenchOptions&, const Control&)>;

Result<int> run(const Options& options, const std::string& name, const Bench& bench) {
  BenchOptions bench_options = options.bench;
  bench_options.threads = options.common.threads;
  bench_options.seed = options.common.seed;
  bench_options.min_runs = static_cast<int>(options.min_runs);
  const Result<BenchReport> report = bench(bench_options, make_control(options.common, "bench " + name));
  // Whatever shape was wrong came from the command line.
  if (!report && report.error().code() == ErrorCode::kInvalidArgument) throw_usage(report.error());
  if (!report) return report.error();
  return finish(options, *report, nullptr);
}

// What every kind of benchmark shares.
CLI::App& add_kind(CLI::App& bench, const std::string& name, const std::string& title, Options& options,
                   std::initializer_list<const char*> examples) {
  CLI::App& command = add_command(bench, name, title, examples);
  add_common(command, options.common);
  add_integer(command, "--runs", options.min_runs, 1, 100, "at least so many timed runs (default 5)");
  add_seconds(command, "--seconds", options.bench.min_seconds, "time the work for at least so long (default 1s)");
  return command;
}

void add_limits(CLI::App& bench) {
  auto stream = std::make_shared<Options>();
  CLI::App& stream_command = add_kind(bench, "stream", "Memory: reading, and scaling in place", *stream,
                                      {"ropewalk bench stream", "ropewalk bench stream --bytes 1gb --threads 1"});
  add_bytes(stream_command, "--bytes", stream->bench.memory_bytes, "memory to go over (default 512mb)");
  set_run(stream_command, [stream] { return run(*stream, "stream", bench_stream); });

  auto peak = std::make_shared<Options>();
  CLI::App& peak_command = add_kind(bench, "peak", "Arithmetic: multiply-adds in registers, f32 and (where native) bf16", *peak,
                                    {"ropewalk bench peak", "ropewalk bench peak --threads 1 --json -"});
  set_run(peak_command, [peak] { return run(*peak, "peak", bench_peak); });
}

// Words of a list such as "f32,bf16", each one of `known`; anything else is an error of use.
template <class T>
CLI::Option* add_choices(CLI::App& command, const std::string& flag, std::vector<T>& values, std::map<std::string, T> known,
                         const std::string& help) {
  return command
      .add_option_function<std::string>(
          flag,
          [&values, known = std::move(known), flag](const std::string& text) {
            values.clear();
            for (size_t begin = 0; begin <= text.size();) {
              const size_t comma = std::min(text.find(',', begin), text.size());
              const std::string word = text.substr(begin, comma - begin);
              const auto found = known.find(word);
              if (found == known.end()) {
                std::string names;
                for (const auto& [name, value] : known) names += (names.empty() ? "" : ", ") + name;
                throw_usage(fail(ErrorCode::kInvalidArgument, "[command line] {}: expected some of {}, but got '{}'", flag,
                                 names, word));
              }
              values.push_back(found->second);
              begin = comma + 1;
            }
          },
          help)
      ->type_name("NAME,..");
}

const std::map<std::string, DType>& dtype_names() {
  static const std::map<std::string, DType> names = {{"f32", DType::kF32}, {"bf16", DType::kBF16}, {"f16", DType::kF16}};
  return names;
}

CLI::Option* add_count(CLI::App& command, const std::string& flag, int& value, int high, const std::string& help) {
  return command
      .add_option_function<std::string>(
          flag,
          [&value, high, flag](const std::string& text) {
            value = static_cast<int>(or_usage(parse_integer(text, 1, high, flag)));
          },
          help)
      ->type_name("N");
}

struct RopeOptions : Options {
  RopeBench rope;
};

void add_rope(CLI::App& bench) {
  auto options = std::make_shared<RopeOptions>();
  options->rope.dtypes = {DType::kF32, DType::kBF16, DType::kF16};
  RopeBench& rope = options->rope;
  CLI::App& command =
      add_kind(bench, "rope", "Rotation in place, as a fraction of the in-place bandwidth", *options,
               {"ropewalk bench rope", "ropewalk bench rope --dtype bf16 --pairing interleaved --heads 9 --head-dim 64"});
  add_bytes(command, "--bytes", rope.bytes, "size of the tensor (default 512mb: cold in every run)");
  add_choices(command, "--dtype", rope.dtypes, dtype_names(), "f32, bf16, f16 (default: all)");
  add_choices<Pairing>(command, "--pairing", rope.pairings,
                       {{"halves", Pairing::kHalves}, {"interleaved", Pairing::kInterleaved}},
                       "halves, interleaved (default: both)");
  add_count(command, "--heads", rope.heads, 65536, "heads (default 32)");
  add_count(command, "--head-dim", rope.head_dim, 65536, "size of a head (default 128)");
  add_count(command, "--rotary-dim", rope.rotary_dim, 65536, "dims of a head that rotate (default: all)");
  set_run(command, [options] {
    return run(*options, "rope", [&](const BenchOptions& bench_options, const Control& control) {
      return bench_rope(options->rope, bench_options, control);
    });
  });
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App& bench = add_command(app, "bench", "Speed against the machine's own limits, answers checked first",
                                {"ropewalk bench stream                  # what memory can do", "ropewalk bench peak",
                                 "ropewalk bench rope --bytes 512mb      # rotation in place, as a fraction of that",
                                 "ropewalk bench attention --tokens 4096 --heads 32 --kv-heads 8 --head-dim 128"});
  bench.require_subcommand(1);
  add_limits(bench);
  add_rope(bench);
}

}  // namespace ropewalk::app
