// What eval, extend and export share: a model, texts, settings, and the tables on the terminal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "workbench/eval.h"
#include "workbench/model_scorer.h"
#include "workbench/report.h"

namespace ropewalk::app {

struct MeasureOptions {
  Common common;
  std::string model;
  std::vector<std::string> texts;
  std::vector<std::string> rope;  // lists of settings
  int64_t windows = 1;
  std::string precision = "fast";
  bool dry_run = false;
  bool retrieval = false;
};
// --text, --rope, --windows, --precision, --dry-run, --retrieval and the common flags.
void add_measure_options(CLI::App& command, MeasureOptions& options);

// A model with its texts, ready to be measured. Heap-allocated: the parts point at each other.
struct Bench {
  Model model;
  ForwardOptions forward;
  Corpus corpus;
  Scorer scorer;
  std::vector<std::string> settings;  // canonical, each once
};
// Errors: use (exit 2) for a setting that does not parse; else those of the readers.
Result<std::unique_ptr<Bench>> open_bench(const MeasureOptions& options, std::vector<std::string> texts);
std::vector<std::string> parse_setting_texts(const std::vector<std::string>& lists);

// One length: a row a setting, a column a range of positions; the best of each column is marked. `base` names the setting that
// differences are from.
std::string setting_table(const std::vector<SettingRow>& rows, const std::vector<PairRow>& paired, const std::string& base,
                          int64_t length);
std::string row_line(const SettingRow& row, int64_t trained);

// Facts for a report.
std::vector<std::pair<std::string, std::string>> facts_of(const Bench& bench, const MeasureOptions& options);
// A word as a shell takes it.
std::string shell_quote(const std::string& word);

}  // namespace ropewalk::app
