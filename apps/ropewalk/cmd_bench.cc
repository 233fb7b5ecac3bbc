// bench: speed against the machine's own limits. Each answer is checked before it is timed.
#include <fmt/format.h>

#include "bench_frame.h"
#include "terminal.h"

namespace ropewalk::app {
namespace {

std::string format_case(const nlohmann::json& setup) {
  std::string text;
  for (const auto& item : setup.items()) {
    if (item.key() == "threads" || item.key() == "bytes") continue;  // the same in every row
    const std::string value = item.value().is_string() ? item.value().get<std::string>() : item.value().dump();
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", item.key(), value);
  }
  return text;
}

std::vector<std::string> cells(const BenchRow& row) {
  const std::string answer = fmt::format("{}, {:.1e}", row.checked ? "right" : "WRONG", row.error);
  return {row.name,
          format_case(row.setup) + (row.cost > 0 ? fmt::format("  {:.2f}x plain", row.cost) : "") +
              (row.memory > 0 ? fmt::format("  {} MB", row.memory / 1000000) : ""),
          fmt::format("{:.3f}", row.median_ms),
          fmt::format("{}", row.runs),
          row.tokens_per_second > 0 ? short_number(row.tokens_per_second) : "-",
          fmt::format("{:.1f} {}", row.value, row.unit),
          fmt::format("{:.1f}", row.limit),
          fmt::format("{:.3f}", row.fraction_of_limit),
          row.checked ? answer : paint(Colour::kRed, answer)};
}

}  // namespace

CLI::App& add_bench_kind(CLI::App& bench, const std::string& name, const std::string& title, BenchCommand& options,
                         std::initializer_list<const char*> examples) {
  CLI::App& command = add_command(bench, name, title, examples);
  add_common(command, options.common);
  add_integer(command, "--runs", options.min_runs, 1, 100, "at least so many timed runs (default 5)");
  add_seconds(command, "--seconds", options.bench.min_seconds, "time the work for at least so long (default 1s)");
  return command;
}

Result<int> run_bench(const BenchCommand& command, const std::string& name, const nlohmann::json& model, const Bench& bench) {
  BenchOptions options = command.bench;
  options.threads = command.common.threads;
  options.seed = command.common.seed;
  options.min_runs = static_cast<int>(command.min_runs);
  const Result<BenchReport> report = bench(options, make_control(command.common, "bench " + name));
  if (!report) {
    // Whatever shape was wrong came from the command line.
    if (report.error().code() == ErrorCode::kInvalidArgument) throw_usage(report.error());
    return report.error();
  }

  nlohmann::json rows = nlohmann::json::array();
  std::vector<std::vector<std::string>> table;
  bool right = true;
  for (const BenchRow& row : report->rows) {
    rows.push_back(to_json(row));
    table.push_back(cells(row));
    right = right && row.checked;
  }
  print(command.common,
        format_table({"name", "case", "median ms", "runs", "tokens/s", "rate", "limit", "of limit", "answer, error"}, table));
  ROPEWALK_CHECK_OK(write_json(command.common, "bench", model, {{"limits", report->limits}, {"rows", std::move(rows)}}));
  return right ? kDone : kCheckFailed;
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

std::map<std::string, DType> dtype_names() { return {{"f32", DType::kF32}, {"bf16", DType::kBF16}, {"f16", DType::kF16}}; }

std::map<std::string, DType> precision_names() {
  return {{"f32", DType::kF32}, {"bf16", DType::kBF16}, {"exact", DType::kF32}, {"fast", DType::kBF16}};
}

void add_bench(CLI::App& app) {
  CLI::App& bench = add_command(app, "bench", "Speed against the machine's own limits, answers checked first",
                                {"ropewalk bench stream                  # what memory can do",
                                 "ropewalk bench rope                    # rotation in place, as a fraction of that",
                                 "ropewalk bench attention --tokens 4096 --heads 32 --kv-heads 8 --head-dim 128",
                                 "ropewalk bench model model.gguf --lengths 512,4k"});
  bench.require_subcommand(1);
  add_bench_kernels(bench);
  add_bench_model(bench);
}

}  // namespace ropewalk::app
