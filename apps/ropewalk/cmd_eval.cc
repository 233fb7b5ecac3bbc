// eval: the loss by position of every setting at every length, on the same tokens.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/fail.h"
#include "measuring.h"
#include "workbench/results.h"

namespace ropewalk::app {
namespace {

struct Options : MeasureOptions {
  std::vector<int64_t> lengths;
  std::string html, journal;
};

nlohmann::json plan_json(const EvalPlan& plan) {
  nlohmann::json passes = nlohmann::json::array();
  for (const Task& task : plan.plan.tasks)
    passes.push_back(
        {{"setting", task.setting}, {"length", task.window.length}, {"text", task.window.text}, {"start", task.window.start}});
  return {{"passes", passes},
          {"shared", plan.plan.shared},
          {"seconds", plan.plan.seconds},
          {"memory_bytes", plan.plan.memory},
          {"memory_available_bytes", plan.plan.memory_available},
          {"notes", plan.plan.notes}};
}

Result<int> run(const Options& options) {
  ROPEWALK_TRY(const std::unique_ptr<Bench> bench, open_bench(options, options.texts));
  Control control = make_control(options.common, "measuring");
  std::optional<Journal> journal;
  if (!options.journal.empty()) {
    ROPEWALK_TRY(Journal opened, Journal::open(options.journal, measurement_context(bench->model, bench->forward.precision)));
    journal.emplace(std::move(opened));
  }
  EvalRequest request;
  request.settings = bench->settings.empty() ? std::vector<std::string>{"none"} : bench->settings;
  request.lengths = options.lengths;
  request.windows = options.windows;
  request.summary = {options.common.seed, {options.common.threads}};
  Measurements measurements(bench->scorer, bench->corpus, journal ? &*journal : nullptr);
  ROPEWALK_TRY(EvalPlan plan, plan_eval(measurements, request));
  for (const std::string& setting : request.settings) {
    for (const WindowSet& set : plan.sets) {
      ROPEWALK_TRY(const std::vector<std::string> notes, setting_notes(bench->model, setting, set.length));
      for (const std::string& note : notes) {
        if (std::find(plan.plan.notes.begin(), plan.plan.notes.end(), note) == plan.plan.notes.end())
          plan.plan.notes.push_back(note);
      }
    }
  }
  ROPEWALK_CHECK_OK(check_memory(plan.plan, plan.sets.back().length));
  if (!plan.plan.tasks.empty()) {
    ROPEWALK_TRY(const SpeedModel speed, SpeedModel::measure(measurements, request.settings.front(), control));
    plan.plan.seconds = speed.seconds(plan.plan.flops);
  }
  for (const std::string& line : plan.plan.notes) note(options.common, "note: " + line);
  note(options.common,
       fmt::format("plan: {} passes{}, about {}, {} of memory ({} available)", plan.plan.tasks.size(),
                   plan.plan.shared > 0 ? fmt::format(" ({} more results come from them)", plan.plan.shared) : "",
                   human_seconds(plan.plan.seconds), human_bytes(plan.plan.memory), human_bytes(plan.plan.memory_available)));
  const nlohmann::json model = model_json(bench->model);
  if (options.dry_run) {
    for (const Task& task : plan.plan.tasks) {
      print(options.common, fmt::format("{:<26}{:>9} tokens of {} from {}\n", task.setting, task.window.length,
                                        bench->corpus.texts[static_cast<size_t>(task.window.text)].name, task.window.start));
    }
    ROPEWALK_CHECK_OK(write_json(options.common, "eval", model, {{"plan", plan_json(plan)}, {"dry_run", true}}));
    return kDone;
  }
  ROPEWALK_TRY(const EvalResult result, run_eval(measurements, request, plan, control));
  nlohmann::json body = eval_json(result);
  body["plan"] = plan_json(plan);
  body["precision"] = options.precision;
  body["retrieval"] = nlohmann::json::array();
  for (const WindowSet& set : plan.sets)
    print(options.common, setting_table(result.settings, result.paired, request.settings.front(), set.length));
  bool complete = result.complete;
  if (options.retrieval && complete) {
    std::vector<int64_t> lengths;
    for (const WindowSet& set : plan.sets) lengths.push_back(set.length);
    const Encode encode = [&](const std::string& text) { return bench->model.tokenizer().encode(text); };
    RetrievalOptions trials;
    trials.seed = options.common.seed;
    Control looking = make_control(options.common, "looking for the key");
    auto rows = measure_retrieval(model_retriever(bench->model, bench->forward), encode, bench->corpus.texts.front().ids,
                                  request.settings, lengths, trials, looking);
    if (!rows && rows.error().code() != ErrorCode::kInterrupted) return rows.error();
    complete = rows.has_value();
    if (rows) {
      print(options.common, "\nkeys found, by depth (0 = the beginning of the text)\n");
      for (const RetrievalRow& row : *rows) {
        body["retrieval"].push_back(to_json(row));
        print(options.common, fmt::format("  {:<26}{:>9} tokens  depth {:.2f}  {} of {}\n", row.setting, row.length, row.depth,
                                          row.correct, row.trials));
      }
    }
  }
  body["complete"] = complete;
  ROPEWALK_CHECK_OK(write_json(options.common, "eval", model, body));
  if (!options.html.empty()) {
    ReportInput report;
    report.title = "Ropewalk: loss by position";
    report.kicker = fmt::format("{} on {}", bench->model.spec().name, bench->corpus.texts.front().name);
    report.headline = headline(body, bench->model.spec().context_trained);
    report.lead = fmt::format("{} settings at {} lengths on the same tokens.", request.settings.size(), plan.sets.size());
    report.results = body;
    report.context_trained = bench->model.spec().context_trained;
    report.facts = facts_of(*bench, options);
    ROPEWALK_CHECK_OK(write_file_atomically(options.html, report_html(report)));
  }
  if (complete) return kDone;
  note(options.common, options.journal.empty() ? "interrupted: what was finished is shown; with --journal FILE a run resumes"
                                               : "interrupted: the same command goes on from here");
  return kInterrupted;
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App& command = add_command(
      app, "eval", "Loss by position for settings and lengths, with intervals",
      {"# does this model read past the length it was trained for?",
       "ropewalk eval model.gguf --text book.txt --lengths 8k,16k",
       "# three settings on the same tokens, as a table, JSON and a page",
       "ropewalk eval model.gguf --text book.txt --lengths 2k,16k --rope none,ntk:2,yarn:2 --json out.json --html out.html",
       "# what would run, how long it would take",
       "ropewalk eval model.gguf --text book.txt --lengths 64k --rope yarn:8 --dry-run"});
  auto options = std::make_shared<Options>();
  add_measure_options(command, *options);
  command.get_option("--text")->required();
  add_lengths(command, "--lengths", options->lengths, "lengths in tokens, as 2k,8k,16k")->required();
  command.add_option("--html", options->html, "write the report page here");
  command.add_option("--journal", options->journal, "keep finished passes in this file, and take them from it");
  set_run(command, [options] { return run(*options); });
}

}  // namespace ropewalk::app
