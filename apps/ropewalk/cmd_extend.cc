// extend: which setting makes the model read further, how far, and at what price; measured, written down, and exported.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/fail.h"
#include "measuring.h"
#include "terminal.h"
#include "workbench/extend.h"
#include "workbench/results.h"

namespace ropewalk::app {
namespace {

namespace fs = std::filesystem;

struct Options : MeasureOptions {
  int64_t to = 0;
  double budget = 0;  // 0 = none
  std::string out;
  double short_weight = 1;
};

// Without --text: the longest of the plays that scripts/fetch_models.sh keeps.
Result<std::vector<std::string>> texts_of(const Options& options) {
  if (!options.texts.empty()) return options.texts;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  fs::path cache = variable("ROPEWALK_CACHE");
  if (cache.empty() && !variable("XDG_CACHE_HOME").empty()) cache = fs::path(variable("XDG_CACHE_HOME")) / "ropewalk";
  if (cache.empty()) cache = fs::path(variable("HOME")) / ".cache" / "ropewalk";
  std::error_code failed;
  fs::path best;
  uintmax_t size = 0;
  for (fs::directory_iterator at(cache / "plays", failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code skip;
    const uintmax_t bytes = at->file_size(skip);
    if (!skip && at->path().extension() == ".txt" && (bytes > size || (bytes == size && at->path() < best))) {
      best = at->path();
      size = bytes;
    }
  }
  if (best.empty()) {
    return fail(ErrorCode::kNotFound, "[extend] expected a long text with --text FILE (none is kept in {}), but got none",
                (cache / "plays").string());
  }
  return std::vector<std::string>{best.string()};
}

// Before any work: a folder that cannot be written must not be found out at the end.
Result<void> prepare_folder(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed)
    return fail(ErrorCode::kIo, "[--out] {}: expected a folder that can be made, but got: {}", folder, failed.message());
  const std::string probe = (fs::path(folder) / ".ropewalk-probe").string();
  ROPEWALK_CHECK_OK(write_file_atomically(probe, std::string(65536, '\n')));
  fs::remove(probe, failed);
  return {};
}

// The candidates that this model can take, each effect once.
Result<std::vector<Candidate>> choose_candidates(const Bench& bench, int64_t target, std::vector<std::string>& notes) {
  const ModelSpec& spec = bench.model.spec();
  std::vector<Candidate> wanted = {candidate_of("none", spec.context_trained, target)};
  if (bench.settings.empty()) {
    wanted = closed_form_candidates(spec.context_trained, target);
  } else {
    for (const std::string& setting : bench.settings) {
      if (setting != "none") wanted.push_back(candidate_of(setting, spec.context_trained, target));
    }
  }
  std::vector<Candidate> out;
  std::vector<AppliedSetting> effects;
  for (const Candidate& candidate : wanted) {
    ROPEWALK_TRY(const Setting setting, parse_setting(candidate.setting));
    auto applied = apply_setting(setting, spec, target);
    if (!applied) {
      if (!bench.settings.empty() || out.empty()) return applied.error();
      notes.push_back(fmt::format("{} is left out: {}", candidate.setting, applied.error().message()));
      continue;
    }
    const auto same = std::find_if(effects.begin(), effects.end(),
                                   [&](const AppliedSetting& e) { return same_positions(e, *applied, target); });
    if (same != effects.end()) {
      notes.push_back(fmt::format("{} is left out: at {} tokens it does what {} does", candidate.setting, target,
                                  out[static_cast<size_t>(same - effects.begin())].setting));
      continue;
    }
    effects.push_back(*std::move(applied));
    out.push_back(candidate);
  }
  return out;
}

std::string reproduce_command(const Options& options, const Bench& bench, const ExtendResult& result) {
  const Recommendation& r = result.recommendation;
  std::string rope = "none";
  for (const std::string& setting : {r.setting, r.runner_up}) {
    if (!setting.empty() && setting != "none") rope += "," + setting;
  }
  std::string text = "ropewalk eval " + shell_quote(options.model) + " --text";
  for (const Text& t : bench.corpus.texts) text += " " + shell_quote(t.name);
  return text + fmt::format(" --lengths {} --rope {} --windows {} --precision {}", result.target, shell_quote(rope),
                            options.windows, options.precision);
}

nlohmann::json plan_json(const ExtendPlan& plan, const std::vector<Candidate>& candidates) {
  nlohmann::json names = nlohmann::json::array();
  for (const Candidate& c : candidates) names.push_back(c.setting);
  return {{"target", plan.target},
          {"lengths", plan.rungs},
          {"candidates", names},
          {"seconds_least", plan.seconds_least},
          {"seconds_most", plan.seconds_most},
          {"memory_bytes", plan.memory},
          {"memory_available_bytes", plan.memory_available},
          {"notes", plan.notes}};
}

std::string summary_text(const ExtendResult& result, int64_t trained, const std::string& line) {
  std::string out = "\n" + paint(Colour::kBold, line) + "\n";
  for (const std::string& reason : result.recommendation.reason) out += "  - " + reason + "\n";
  out += "\n";
  std::vector<std::vector<std::string>> rows;
  for (const CandidateResult& c : result.candidates) {
    const auto cell = [](const std::optional<Interval>& i) { return i ? fmt::format("{:+.3f}", i->mean) : std::string(""); };
    rows.push_back({c.setting,
                    c.standing != Standing::kDropped ? std::string(to_string(c.standing))
                    : c.dropped_at > 0               ? fmt::format("dropped at {}", c.dropped_at)
                                                     : std::string("not measured"),
                    cell(c.price), cell(c.gain), c.why});
  }
  return out + format_table({"setting", "state", fmt::format("below {}", trained), "past it", "why"}, rows);
}

Result<int> run(const Options& options) {
  ROPEWALK_TRY(const std::vector<std::string> texts, texts_of(options));
  if (!options.out.empty()) ROPEWALK_CHECK_OK(prepare_folder(options.out));
  ROPEWALK_TRY(const std::unique_ptr<Bench> bench, open_bench(options, texts));
  const ModelSpec& spec = bench->model.spec();
  const int64_t trained = spec.context_trained;
  Control control = make_control(options.common, "measuring");

  std::optional<Journal> journal;
  if (!options.out.empty()) {
    ROPEWALK_TRY(Journal opened, Journal::open((fs::path(options.out) / "journal.jsonl").string(),
                                               measurement_context(bench->model, bench->forward.precision)));
    journal.emplace(std::move(opened));
    if (!journal->entries().empty())
      note(options.common, fmt::format("note: {} finished passes are taken from {}", journal->entries().size(), options.out));
  }
  ExtendRequest request;
  request.trained = trained;
  request.target = options.to;
  if (options.budget > 0) request.budget = options.budget;
  request.windows = std::max<int64_t>(1, options.windows);
  request.short_weight = options.short_weight;
  request.summary = {options.common.seed, {options.common.threads}};
  Measurements measurements(bench->scorer, bench->corpus, journal ? &*journal : nullptr);

  // Texts and budget may shorten the target, the candidates follow it, and their number is a part of the price.
  request.candidates = {candidate_of("none", trained, request.target)};
  ROPEWALK_TRY(const SpeedModel speed, SpeedModel::measure(measurements, "none", control, 2048));
  ROPEWALK_TRY(ExtendPlan plan, plan_extend(measurements, request, speed));
  std::vector<std::string> left_out;
  for (int64_t chosen_for = 0; chosen_for != plan.target;) {
    chosen_for = plan.target;
    left_out.clear();
    ROPEWALK_TRY(request.candidates, choose_candidates(*bench, chosen_for, left_out));
    ROPEWALK_TRY(plan, plan_extend(measurements, request, speed, chosen_for));
  }
  plan.notes.insert(plan.notes.end(), left_out.begin(), left_out.end());
  Plan memory;
  memory.memory = plan.memory;
  memory.memory_available = plan.memory_available;
  ROPEWALK_CHECK_OK(check_memory(memory, plan.target));
  const int64_t target = plan.target;
  request.expressible = [&bench, target](const std::string& setting) { return is_expressible(bench->model, setting, target); };

  for (const std::string& line : plan.notes) note(options.common, "note: " + line);
  std::string names;
  for (const Candidate& c : request.candidates) names += (names.empty() ? "" : ", ") + c.setting;
  note(options.common, fmt::format("plan: {} to {} tokens (trained for {}) with {}", spec.name, target, trained, names));
  note(options.common,
       fmt::format("plan: between {} and {}, {} of memory ({} available)", human_seconds(plan.seconds_least),
                   human_seconds(plan.seconds_most), human_bytes(plan.memory), human_bytes(plan.memory_available)));
  const nlohmann::json model = model_json(bench->model);
  if (options.dry_run) {
    ROPEWALK_CHECK_OK(
        write_json(options.common, "extend", model, {{"plan", plan_json(plan, request.candidates)}, {"dry_run", true}}));
    return kDone;
  }

  bool first = true;
  ExtendEvents events;
  const auto clear_line = [&control] {
    if (control.progress) control.progress(1, 1);
  };
  events.say = [&](const std::string& line) {
    clear_line();
    print(options.common, "  " + line + "\n");
  };
  events.row = [&](const SettingRow& row) {
    clear_line();
    if (first) {
      print(options.common, setting_table({row}, {}, row.setting, row.length) + "\n");
      first = false;
    } else {
      print(options.common, row_line(row, trained));
    }
  };
  ROPEWALK_TRY(ExtendResult result, run_extend(measurements, request, plan, speed, control, events));
  bool complete = result.eval.complete;

  nlohmann::json retrieval = nlohmann::json::array();
  if (options.retrieval && complete && !result.recommendation.setting.empty()) {
    std::vector<std::string> settings = {"none"};
    if (result.recommendation.setting != "none") settings.push_back(result.recommendation.setting);
    const Encode encode = [&](const std::string& text) { return bench->model.tokenizer().encode(text); };
    RetrievalOptions trials;
    trials.trials = 2;
    trials.seed = options.common.seed;
    auto rows = measure_retrieval(model_retriever(bench->model, bench->forward), encode, bench->corpus.texts.front().ids,
                                  settings, {trained / 2, target}, trials, make_control(options.common, "looking for the key"));
    if (!rows && rows.error().code() != ErrorCode::kInterrupted) return rows.error();
    complete = rows.has_value();
    if (rows) {
      int64_t found = 0, asked = 0;
      for (const RetrievalRow& row : *rows) {
        retrieval.push_back(to_json(row));
        if (row.setting == result.recommendation.setting && row.length == target) found += row.correct, asked += row.trials;
      }
      result.recommendation.reason.push_back(
          fmt::format("Asked at {} tokens for a number that stands far back, it found {} of {}.", target, found, asked));
    }
  }

  std::vector<ExportTarget> exports;
  if (!result.recommendation.setting.empty()) {
    ROPEWALK_TRY(exports, export_model_setting(bench->model, result.recommendation.setting,
                                               std::max(result.recommendation.usable_to, trained)));
  }
  const std::string reproduce = reproduce_command(options, *bench, result);
  nlohmann::json body = extend_json(result, reproduce);
  body["complete"] = complete;
  body["retrieval"] = retrieval;
  body["plan"] = plan_json(plan, request.candidates);
  body["precision"] = options.precision;
  body["exports"] = nlohmann::json::array();
  body["files"] = nlohmann::json::array();
  for (const ExportTarget& t : exports) body["exports"].push_back(to_json(t));
  const std::string line = headline(body, trained);
  if (!options.out.empty()) {
    body["files"] = {"report.html", "results.json"};
    for (const ExportTarget& t : exports) {
      for (const ExportFile& file : t.files) body["files"].push_back(file.name);
    }
    ReportInput report;
    report.title = "Ropewalk: " + line;
    report.kicker = fmt::format("{}, trained to read {} tokens, measured to {} on {}",
                                spec.name.empty() ? fs::path(options.model).filename().string() : spec.name, trained, target,
                                fs::path(texts.front()).filename().string());
    report.headline = line;
    report.results = body;
    report.exports = body["exports"];
    report.exported = result.recommendation.setting;
    report.context_trained = trained;
    report.reproduce = reproduce;
    report.facts = facts_of(*bench, options);
    ROPEWALK_CHECK_OK(write_exports(options.out, exports));
    ROPEWALK_CHECK_OK(write_file_atomically((fs::path(options.out) / "report.html").string(), report_html(report)));
    Common file = options.common;
    file.json = (fs::path(options.out) / "results.json").string();
    ROPEWALK_CHECK_OK(write_json(file, "extend", model, body));
  }
  ROPEWALK_CHECK_OK(write_json(options.common, "extend", model, body));
  print(options.common, setting_table(result.eval.settings, result.eval.paired, "none", target));
  print(options.common, summary_text(result, trained, line));
  if (!result.recommendation.setting.empty()) {
    for (const ExportTarget& t : exports) {
      if (t.as == "llama.cpp" && t.expressible) print(options.common, "\nllama.cpp: " + t.snippet + "\n");
    }
    print(options.common, "again:     " + reproduce + "\n");
  }
  if (!options.out.empty())
    print(options.common, fmt::format("written:   {}\n", (fs::path(options.out) / "report.html").string()));
  if (complete) return kDone;
  note(options.common, options.out.empty() ? "interrupted: with --out FOLDER a run keeps what is finished"
                                           : "interrupted: the same command goes on from here");
  return kInterrupted;
}

}  // namespace

void add_extend(CLI::App& app) {
  CLI::App& command = add_command(
      app, "extend", "Find, by measurement, the setting that makes a model read further",
      {"# twice the length that the model was trained for; report, results and export files go to report/",
       "ropewalk extend model.gguf --to 16k --text book.txt --out report", "# ten minutes at most; what is left out is said",
       "ropewalk extend model.gguf --to 32k --text book.txt --budget 10m --out report", "# only these candidates",
       "ropewalk extend model.gguf --to 16k --text book.txt --rope ntk:2,yarn:2,yarn:2:beta_fast=16"});
  auto options = std::make_shared<Options>();
  add_measure_options(command, *options);
  add_length(command, "--to", options->to, "the length to reach, as 32k")->required();
  add_seconds(command, "--budget", options->budget, "time to spend, as 10m: the race is shortened to fit");
  command.add_option("--out", options->out,
                     "folder for report.html, results.json, export/ and the journal that a run resumes from");
  command
      .add_option("--short-weight", options->short_weight,
                  "what a nat at short positions counts against a nat at long ones (default 1)")
      ->check(CLI::Range(0.0, 1000.0));
  set_run(command, [options] { return run(*options); });
}

}  // namespace ropewalk::app
