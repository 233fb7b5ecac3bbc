#include "measuring.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/fail.h"
#include "base/machine.h"
#include "ropewalk/version.h"
#include "simd/targets.h"
#include "terminal.h"

namespace ropewalk::app {

void add_measure_options(CLI::App& command, MeasureOptions& options) {
  command.add_option("model", options.model, "a .gguf file, or a folder with config.json and *.safetensors")->required();
  command.add_option("--text", options.texts, "text files to measure on; longer than the longest length");
  command.add_option("--rope", options.rope, "settings, as none,ntk:2,yarn:4:beta_fast=16; may be given several times");
  add_integer(command, "--windows", options.windows, 0, 1000000, "windows of each text (0 = all that fit; default 1)");
  command
      .add_option("--precision", options.precision,
                  "exact = 32-bit; fast = 16-bit products where the processor has them (default)")
      ->check(CLI::IsMember({"exact", "fast"}));
  command.add_flag("--retrieval", options.retrieval, "also test whether a key that stands far back is found");
  command.add_flag("--dry-run", options.dry_run, "show the plan, with time and memory, and stop");
  add_common(command, options.common);
}

std::vector<std::string> parse_setting_texts(const std::vector<std::string>& lists) {
  std::vector<std::string> out;
  for (const std::string& list : lists) {
    for (const Setting& setting : or_usage(parse_settings(list))) {
      if (std::find(out.begin(), out.end(), setting.text) == out.end()) out.push_back(setting.text);
    }
  }
  return out;
}

Result<std::unique_ptr<Bench>> open_bench(const MeasureOptions& options, std::vector<std::string> texts) {
  std::vector<std::string> settings = parse_setting_texts(options.rope);
  // Texts before the model: a wrong path should not wait for anything.
  std::vector<std::string> contents;
  for (const std::string& path : texts) {
    ROPEWALK_TRY(std::string text, read_file(path));
    contents.push_back(std::move(text));
  }
  ROPEWALK_TRY(Model model, Model::open(options.model));
  // NOLINTNEXTLINE(modernize-make-unique): an aggregate, which make_unique cannot brace.
  auto bench = std::unique_ptr<Bench>(new Bench{std::move(model), {}, {}, {}, std::move(settings)});
  bench->forward.precision = options.precision == "exact" ? Precision::kExact : Precision::kFast;
  bench->forward.threads = options.common.threads;
  std::vector<Text> ids;
  for (size_t i = 0; i < texts.size(); ++i) ids.push_back(make_text(texts[i], bench->model.tokenizer().encode(contents[i])));
  bench->corpus = make_corpus(bench->model, std::move(ids));
  bench->scorer = model_scorer(bench->model, bench->forward);
  return bench;
}

std::string setting_table(const std::vector<SettingRow>& all, const std::vector<PairRow>& paired, const std::string& base,
                          int64_t length) {
  std::vector<const SettingRow*> rows;
  for (const SettingRow& row : all) {
    if (row.length == length) rows.push_back(&row);
  }
  if (rows.empty()) return {};
  const auto& columns = rows.front()->by_position;
  std::vector<std::string> header = {"setting"};
  for (const BucketRow& column : columns) header.push_back(fmt::format("{}-{}", column.bucket.from, column.bucket.to));
  header.insert(header.end(), {"all", "ppl", "tokens/s"});
  std::vector<double> best(columns.size() + 1, 1e300);
  for (const SettingRow* row : rows) {
    for (size_t i = 0; i < columns.size(); ++i) best[i] = std::min(best[i], row->by_position[i].nll.mean);
    best.back() = std::min(best.back(), row->nll.mean);
  }
  const auto cell = [&](double value, double least) {
    const std::string text = fmt::format("{:.4f}", value);
    return rows.size() > 1 && value == least ? paint(Colour::kBold, text + "*") : text + " ";
  };
  std::vector<std::vector<std::string>> cells;
  for (const SettingRow* row : rows) {
    std::vector<std::string> line = {row->setting};
    for (size_t i = 0; i < columns.size(); ++i) line.push_back(cell(row->by_position[i].nll.mean, best[i]));
    line.push_back(cell(row->nll.mean, best.back()));
    line.push_back(fmt::format("{:.2f}", std::exp(std::min(row->nll.mean, 700.0))));
    line.push_back(fmt::format("{:.0f}", row->tokens_per_second));
    cells.push_back(std::move(line));
  }
  std::string out = fmt::format("\n{} tokens{}: nats a token by position, lower is better{}\n", length,
                                rows.front()->windows > 1 ? fmt::format(", {} windows", rows.front()->windows) : "",
                                rows.size() > 1 ? " (* best)" : "");
  out += format_table(header, cells);
  std::vector<std::vector<std::string>> deltas;
  for (const SettingRow* row : rows) {
    if (row->setting == base) continue;
    std::vector<std::string> line = {row->setting};
    const auto add = [&](Bucket bucket) {
      const auto at = std::find_if(paired.begin(), paired.end(), [&](const PairRow& p) {
        return p.a == base && p.b == row->setting && p.length == length && p.bucket == bucket;
      });
      if (at == paired.end()) return line.push_back("");
      const std::string text = fmt::format("{:+.3f} ({:+.3f} {:+.3f})", at->delta.mean, at->delta.low, at->delta.high);
      line.push_back(at->verdict == Verdict::kTie
                         ? paint(Colour::kDim, text)
                         : paint(at->verdict == Verdict::kBetter ? Colour::kGreen : Colour::kRed, text));
    };
    for (const BucketRow& column : columns) add(column.bucket);
    add({0, length});
    deltas.push_back(std::move(line));
  }
  if (!deltas.empty()) {
    header.resize(columns.size() + 2);
    out += fmt::format("\ndifference from {} on the same tokens (95% interval; one that holds 0 is a tie)\n", base) +
           format_table(header, deltas);
  }
  return out;
}

std::string row_line(const SettingRow& row, int64_t trained) {
  double far = 0, near = 0;
  int64_t far_count = 0, near_count = 0;
  for (const BucketRow& b : row.by_position) {
    const auto n = static_cast<double>(b.nll.count);
    (b.bucket.from >= trained ? far : near) += b.nll.mean * n;
    (b.bucket.from >= trained ? far_count : near_count) += b.nll.count;
  }
  std::string text = fmt::format("  {:<26}{:>8} tokens", row.setting, row.length);
  if (near_count > 0) text += fmt::format("   {:.4f}", near / static_cast<double>(near_count));
  if (far_count > 0) text += fmt::format(" within {}, {:.4f} past it", trained, far / static_cast<double>(far_count));
  return text + fmt::format("   ({:.0f} tokens/s)\n", row.tokens_per_second);
}

std::vector<std::pair<std::string, std::string>> facts_of(const Bench& bench, const MeasureOptions& options) {
  const ModelSpec& spec = bench.model.spec();
  std::vector<std::pair<std::string, std::string>> out;
  out.emplace_back("model", fmt::format("{} ({})", spec.name.empty() ? "unnamed" : spec.name,
                                        std::filesystem::path(bench.model.path()).filename().string()));
  out.emplace_back("architecture", fmt::format("{}: {} layers, width {}, {} heads ({} for keys) of {}", spec.architecture,
                                               spec.layers.size(), spec.width, spec.heads, spec.kv_heads, spec.head_dim));
  out.emplace_back("trained length", fmt::format("{} tokens", spec.context_trained));
  for (const LayerSpec& layer : spec.layers) {
    if (layer.position.global && layer.position.rotary) {
      out.emplace_back("rotary base", fmt::format("{}, {} of {} dims of a head", layer.position.rotary->theta,
                                                  layer.position.rotary->rotated.count, spec.head_dim));
      break;
    }
  }
  for (const Text& text : bench.corpus.texts) {
    out.emplace_back("text",
                     fmt::format("{}, {} tokens", std::filesystem::path(text.name).filename().string(), text.ids.size()));
  }
  out.emplace_back("precision", options.precision == "exact" ? "exact: 32-bit"
                                : bf16_pays()                ? "fast: bf16 products"
                                                             : "fast (32-bit on this processor)");
  out.emplace_back("machine", fmt::format("{}, {} threads, {}, {}", cpu_name(), options.common.threads, simd_target_in_use(),
                                          human_bytes(memory_total())));
  out.emplace_back("seed", std::to_string(options.common.seed));
  char date[32] = {};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  if (gmtime_r(&now, &utc) != nullptr && std::strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &utc) > 0)
    out.emplace_back("date", date);
  out.emplace_back("program", fmt::format("ropewalk {}", ROPEWALK_VERSION));
  return out;
}

std::string shell_quote(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("-_./:=,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace ropewalk::app
