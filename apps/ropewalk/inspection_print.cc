// An inspection as JSON and as text.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "inspection.h"
#include "terminal.h"

namespace ropewalk::app {
namespace {

using nlohmann::json;

const char* name_of(Pairing pairing) { return pairing == Pairing::kHalves ? "halves" : "interleaved"; }

const char* name_of(QueryTemperature::Form form) {
  switch (form) {
    case QueryTemperature::Form::kLlama4: return "llama4";
    case QueryTemperature::Form::kMinistral: return "ministral";
    case QueryTemperature::Form::kLogN: return "logn";
    case QueryTemperature::Form::kNone: break;
  }
  return "none";
}

json temperature_json(const QueryTemperature& temperature) {
  if (temperature.form == QueryTemperature::Form::kNone) return nullptr;
  return {{"form", name_of(temperature.form)}, {"beta", temperature.beta}, {"length", temperature.length}};
}

json planes_json(const PlaneSummary& summary) {
  return {{"planes", summary.planes},
          {"standing_still", summary.still},
          {"incomplete_in_training", summary.incomplete},
          {"first_incomplete", summary.first_incomplete < 0 ? json(nullptr) : json(summary.first_incomplete)},
          {"shortest_wavelength", summary.shortest > 0 ? json(summary.shortest) : json(nullptr)},
          {"longest_wavelength", summary.longest > 0 ? json(summary.longest) : json(nullptr)}};
}

json layer_json(const Inspection& found, const LayerGroup& group) {
  const LayerPosition& position = group.position;
  json layer = {{"layers", group.layers},
                {"encoding", position.rotary ? "rope" : "none"},
                {"head_dim", found.head_dim},
                {"global", position.global},
                {"window", position.reach.window > 0 ? json(position.reach.window) : json(nullptr)}};
  const RotarySchedule bare;
  const RotarySchedule& rotary = position.rotary ? *position.rotary : bare;
  layer["pairing"] = position.rotary ? json(name_of(rotary.pairing)) : json(nullptr);
  layer["rotary_dim"] = rotary.rotated.count;
  layer["rotary_begin"] = rotary.rotated.begin;
  layer["theta"] = rotary.theta > 0 ? json(rotary.theta) : json(nullptr);
  layer["inv_freq"] = rotary.inv_freq;
  layer["amplitude"] = rotary.amplitude;
  layer["softmax_multiplier"] = rotary.softmax_multiplier;
  layer["axis"] = rotary.axis.empty() ? json(nullptr) : json(rotary.axis);
  layer["temperature"] = temperature_json(rotary.query_temperature);
  layer["wavelengths"] = planes_json(summarize_planes(rotary, found.context_trained));
  layer["scaled"] = position.rotary && position.rotary_plain && !(*position.rotary == *position.rotary_plain);
  return layer;
}

std::string planes_text(const RotarySchedule& rotary, int64_t context) {
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < rotary.inv_freq.size(); ++i) {
    const double f = std::abs(rotary.inv_freq[i]);
    const double wavelength = 2 * std::numbers::pi / f, turns = static_cast<double>(context) / wavelength;
    rows.push_back({fmt::format("{}", i), fmt::format("{:.6g}", rotary.inv_freq[i]),
                    f == 0 ? "still" : fmt::format("{:.4g}", wavelength), f == 0 ? "0" : fmt::format("{:.4g}", turns),
                    f != 0 && turns < 1 ? paint(Colour::kYellow, "never a whole turn") : ""});
  }
  return format_table({"plane", "rad per position", "wavelength", "turns in training", ""}, rows);
}

std::string turns_text(const PlaneSummary& summary) {
  if (summary.incomplete == 0) return fmt::format("all {} planes turn", summary.planes - summary.still);
  return fmt::format("{} of {}, from plane {}", summary.incomplete, summary.planes, summary.first_incomplete);
}

std::vector<std::string> layer_cells(const Inspection& found, const LayerGroup& group) {
  const LayerPosition& position = group.position;
  const std::string window = position.reach.window > 0 ? fmt::format("{}", position.reach.window) : "full";
  if (!position.rotary) return {group.layers, "none", "-", "-", "-", "-", "-", "-", window};
  const RotarySchedule& rotary = *position.rotary;
  const PlaneSummary summary = summarize_planes(rotary, found.context_trained);
  const bool scaled = position.rotary_plain && !(rotary == *position.rotary_plain);
  return {group.layers,
          scaled ? "rope, scaled" : "rope",
          name_of(rotary.pairing),
          fmt::format("{} of {}", rotary.rotated.count, found.head_dim),
          rotary.theta > 0 ? fmt::format("{:.10g}", rotary.theta) : "-",
          fmt::format("{:.6g}", rotary.amplitude),
          fmt::format("{:.4g} to {:.4g}", summary.shortest, summary.longest),
          turns_text(summary),
          window};
}

}  // namespace

json inspection_model(const Inspection& found) {
  return {{"path", found.path},         {"architecture", found.architecture},
          {"name", found.name},         {"layers", found.layer_count},
          {"heads", found.heads},       {"kv_heads", found.kv_heads},
          {"head_dim", found.head_dim}, {"tensor_bytes", found.file_bytes}};
}

json inspection_body(const Inspection& found) {
  json layers = json::array(), findings = json::array();
  bool rotates = false;
  for (const LayerGroup& group : found.groups) {
    layers.push_back(layer_json(found, group));
    rotates = rotates || group.position.rotary.has_value();
  }
  for (const Finding& finding : found.findings) {
    findings.push_back(
        {{"code", finding.code}, {"severity", finding.severity}, {"key", finding.key}, {"message", finding.message}});
  }
  return {{"encoding", rotates ? "rope" : "none"},    {"dialect", found.dialect},
          {"context_trained", found.context_trained}, {"context_original", found.context_original},
          {"context_claimed", found.context_claimed}, {"layers", std::move(layers)},
          {"findings", std::move(findings)},          {"readings", json::array()}};
}

std::string inspection_text(const Inspection& found, bool planes) {
  std::string text = paint(Colour::kBold, found.path) + "\n";
  text +=
      fmt::format("{}{}{}, {} layers, {} query and {} key heads of {}\n", found.architecture, found.name.empty() ? "" : ": ",
                  found.name, found.layer_count, found.heads, found.kv_heads, found.head_dim);
  text += fmt::format("context: {} trained", found.context_trained);
  if (found.context_original > 0 && found.context_original != found.context_trained) {
    text += fmt::format(", {} before the file's own scaling", found.context_original);
  }
  if (found.context_claimed != found.context_trained) text += fmt::format(", {} claimed", found.context_claimed);
  text += "\n\n";

  std::vector<std::vector<std::string>> rows;
  for (const LayerGroup& group : found.groups) rows.push_back(layer_cells(found, group));
  text += format_table({"layers", "encoding", "pairing", "rotates", "theta", "amplitude", "positions a turn",
                        "no whole turn in training", "window"},
                       rows);
  if (planes) {
    for (const LayerGroup& group : found.groups) {
      if (!group.position.rotary) continue;
      text += fmt::format("\nlayers {}\n", group.layers) + planes_text(*group.position.rotary, found.context_trained);
    }
  }
  if (!found.findings.empty()) text += '\n';
  for (const Finding& finding : found.findings) {
    const Colour colour = finding.severity == "error"     ? Colour::kRed
                          : finding.severity == "warning" ? Colour::kYellow
                                                          : Colour::kDim;
    text += fmt::format("{} {}: {}{}\n", finding.code, paint(colour, finding.severity),
                        finding.key.empty() ? "" : finding.key + ": ", finding.message);
  }
  return text;
}

}  // namespace ropewalk::app
