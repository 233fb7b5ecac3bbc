// encodings: the registry of position encodings, and the rules that change a rotary one.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "command.h"
#include "encodings/rope/settings_grammar.h"
#include "ropewalk/encodings.h"
#include "terminal.h"

namespace ropewalk::app {
namespace {

struct Options {
  Common common;
  std::string name;
};

std::vector<std::string> points_of(const EncodingPoints& points) {
  std::vector<std::string> names;
  if (points.input) names.emplace_back("input");
  if (points.rotation) names.emplace_back("rotation");
  if (points.score) names.emplace_back("score");
  if (points.value) names.emplace_back("value");
  if (points.pairs) names.emplace_back("pairs");
  return names;
}

std::string weight_text(const EncodingWeight& weight) {
  return fmt::format("{} [{}]", weight.name, fmt::join(weight.shape, ", "));
}

Result<nlohmann::json> json_of(const EncodingInfo& info) {
  nlohmann::json parameters = nlohmann::json::array();
  for (const EncodingParameter& p : info.parameters) {
    parameters.push_back({{"name", p.name},
                          {"meaning", p.meaning},
                          {"type", p.whole ? "integer" : "number"},
                          {"default", p.value},
                          {"range", {p.low, p.high}}});
  }
  ROPEWALK_TRY(const std::vector<EncodingWeight> weights, encoding_weights(info.name, {}));
  nlohmann::json tables = nlohmann::json::array();
  for (const EncodingWeight& w : weights) tables.push_back({{"name", w.name}, {"shape", w.shape}});
  return nlohmann::json{{"name", info.name},
                        {"title", info.title},
                        {"family", info.family},
                        {"formula", info.formula},
                        {"summary", info.summary},
                        {"used_by", info.used_by},
                        {"source", info.source},
                        {"cost", info.cost},
                        {"text", info.text.empty() ? nlohmann::json() : nlohmann::json(info.text)},
                        {"points", points_of(info.points)},
                        {"shift_invariant", info.shift_invariant},
                        {"parameters", std::move(parameters)},
                        {"learned", !weights.empty()},
                        {"backward", true},  // every one: tests/encodings_test.cc holds each to its gradients
                        {"weights", std::move(tables)}};
}

Result<std::string> explain(const EncodingInfo& info) {
  std::string text = fmt::format("{}: {}\n\n", paint(Colour::kBold, info.name), info.title);
  const auto line = [&](std::string_view what, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<12}{}\n", what, value);
  };
  line("formula", info.formula);
  line("what", info.summary);
  line("used by", info.used_by);
  line("source", info.source);
  line("acts on", fmt::format("{}", fmt::join(points_of(info.points), ", ")));
  line("cost", info.cost);
  if (!info.text.empty()) line("takes", fmt::format("{}; default {}", info.text, info.text_value));
  ROPEWALK_TRY(const std::vector<EncodingWeight> weights, encoding_weights(info.name, {}));
  for (const EncodingWeight& w : weights) line("weight", weight_text(w) + " for 8 heads of 64, width 512, 2048 trained");
  if (!info.parameters.empty()) {
    text += '\n';
    std::vector<std::vector<std::string>> rows;
    for (const EncodingParameter& p : info.parameters) {
      rows.push_back({p.name, fmt::format("{}", p.value), fmt::format("{} to {}", p.low, p.high), p.meaning});
    }
    text += format_table({"parameter", "default", "range", "meaning"}, rows);
  }
  return text;
}

std::string list_all() {
  std::vector<std::vector<std::string>> rows;
  for (const EncodingInfo& info : encodings()) {
    std::string parameters = info.text_value;
    for (const EncodingParameter& p : info.parameters)
      parameters += fmt::format("{}{}={}", parameters.empty() ? "" : " ", p.name, p.value);
    rows.push_back({info.name, info.title, fmt::format("{}", fmt::join(points_of(info.points), ", ")), parameters});
  }
  std::string text = format_table({"encoding", "what", "acts on", "parameters"}, rows);
  text += "\nRules for rotary encodings (--rope of eval and extend):\n";
  for (const settings::RuleSpec& rule : settings::rules()) text += fmt::format("  {}\n", rule.form);
  return text;
}

Result<int> run(const Options& options) {
  nlohmann::json list = nlohmann::json::array();
  if (!options.name.empty()) {
    const EncodingInfo* info = find_encoding(options.name);
    if (info == nullptr) {
      std::string known;
      for (const EncodingInfo& one : encodings()) known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
      return fail(ErrorCode::kNotFound, "[encodings] expected one of {}, but got '{}'", known, options.name);
    }
    ROPEWALK_TRY(const std::string text, explain(*info));
    print(options.common, text);
    ROPEWALK_TRY(nlohmann::json one, json_of(*info));
    list.push_back(std::move(one));
    ROPEWALK_CHECK_OK(write_json(options.common, "encodings", nullptr, {{"encodings", std::move(list)}}));
    return kDone;
  }
  print(options.common, list_all());
  for (const EncodingInfo& info : encodings()) {
    ROPEWALK_TRY(nlohmann::json one, json_of(info));
    list.push_back(std::move(one));
  }
  nlohmann::json rules = nlohmann::json::array();
  for (const settings::RuleSpec& rule : settings::rules()) rules.push_back({{"name", rule.name}, {"form", rule.form}});
  ROPEWALK_CHECK_OK(
      write_json(options.common, "encodings", nullptr, {{"encodings", std::move(list)}, {"rules", std::move(rules)}}));
  return kDone;
}

}  // namespace

void add_encodings(CLI::App& app) {
  CLI::App& command =
      add_command(app, "encodings", "Every position encoding: what it is, its formula and parameters",
                  {"ropewalk encodings                # the list", "ropewalk encodings alibi          # one, explained",
                   "ropewalk encodings --json -       # all of it for scripts"});
  auto options = std::make_shared<Options>();
  command.add_option("NAME", options->name, "the encoding to explain");
  add_common(command, options->common);
  set_run(command, [options] { return run(*options); });
}

}  // namespace ropewalk::app
