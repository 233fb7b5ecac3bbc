#include "inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "base/fail.h"
#include "engine/hf_sizes.h"
#include "engine/model.h"
#include "formats/hf_config.h"

namespace ropewalk::app {
namespace {

bool equal(const LayerPosition& a, const LayerPosition& b) {
  return a.rotary == b.rotary && a.rotary_plain == b.rotary_plain && a.rotary_long == b.rotary_long && a.reach == b.reach &&
         a.global == b.global;
}

void add_findings(const ModelSpec& spec, Inspection& found) {
  for (const std::string& note : spec.notes) found.findings.push_back({"RW001", "note", "", note});
  if (spec.context_claimed > spec.context_trained && spec.context_trained > 0) {
    found.findings.push_back({"RW002", "warning",
                              found.dialect == "gguf" ? spec.architecture + ".context_length" : "max_position_embeddings",
                              fmt::format("claims a context of {}, but the frequencies were trained for {}",
                                          spec.context_claimed, spec.context_trained)});
  }
  if (!spec.file_rule.empty()) {
    found.findings.push_back(
        {"RW003", "warning", found.dialect == "gguf" ? spec.architecture + ".rope.scaling.type" : "rope_scaling.type",
         "the file's scaling depends on the length of the sequence (" + spec.file_rule +
             "); engines that let frequencies follow the longest call so far, over keys rotated earlier, compute "
             "something else, which is not reproducible"});
  }
}

Result<Inspection> inspect_config(const std::string& path) {
  ROPEWALK_TRY(const HfConfig config, load_hf_config(path));
  ModelSpec spec;
  spec.architecture = config.model_type;
  spec.name = config.architectures.empty() ? "" : config.architectures.front();
  spec.heads = static_cast<int>(config.num_attention_heads);
  spec.kv_heads = static_cast<int>(config.num_key_value_heads);
  spec.head_dim = static_cast<int>(config.head_dim);
  spec.context_claimed = config.max_position_embeddings;
  spec.notes = config.warnings;
  spec.layers.resize(static_cast<size_t>(config.num_hidden_layers));
  ROPEWALK_CHECK_OK(set_hf_positions(config, spec));
  return inspect_spec(spec, "hf", path);
}

}  // namespace

PlaneSummary summarize_planes(const RotarySchedule& schedule, int64_t context) {
  PlaneSummary summary;
  summary.planes = static_cast<int>(schedule.inv_freq.size());
  for (size_t i = 0; i < schedule.inv_freq.size(); ++i) {
    if (schedule.inv_freq[i] == 0) {
      ++summary.still;
      continue;
    }
    const double wavelength = 2 * std::numbers::pi / std::abs(schedule.inv_freq[i]);
    summary.shortest = summary.shortest == 0 ? wavelength : std::min(summary.shortest, wavelength);
    summary.longest = std::max(summary.longest, wavelength);
    if (context > 0 && wavelength > static_cast<double>(context)) {
      if (summary.incomplete++ == 0) summary.first_incomplete = static_cast<int>(i);
    }
  }
  return summary;
}

std::string format_ranges(const std::vector<int64_t>& sorted) {
  std::string text;
  for (size_t i = 0; i < sorted.size();) {
    size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    text += text.empty() ? "" : ",";
    text += last == i ? fmt::format("{}", sorted[i]) : fmt::format("{}-{}", sorted[i], sorted[last]);
    i = last + 1;
  }
  return text;
}

std::vector<LayerGroup> group_layers(const std::vector<LayerSpec>& layers) {
  std::vector<LayerGroup> groups;
  std::vector<std::vector<int64_t>> members;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerPosition& position = layers[i].position;
    const auto same =
        std::find_if(groups.begin(), groups.end(), [&](const LayerGroup& g) { return equal(g.position, position); });
    const auto index = static_cast<size_t>(same - groups.begin());
    if (same == groups.end()) {
      groups.push_back({"", 0, position});
      members.emplace_back();
    }
    members[index].push_back(static_cast<int64_t>(i));
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    groups[g].layers = format_ranges(members[g]);
    groups[g].count = static_cast<int64_t>(members[g].size());
  }
  return groups;
}

Inspection inspect_spec(const ModelSpec& spec, const std::string& dialect, const std::string& path) {
  Inspection found;
  found.path = path;
  found.dialect = dialect;
  found.architecture = spec.architecture;
  found.name = spec.name;
  found.heads = spec.heads;
  found.kv_heads = spec.kv_heads;
  found.head_dim = spec.head_dim;
  found.layer_count = static_cast<int64_t>(spec.layers.size());
  found.context_trained = spec.context_trained;
  found.context_original = spec.context_original;
  found.context_claimed = spec.context_claimed;
  found.groups = group_layers(spec.layers);
  add_findings(spec, found);
  return found;
}

Result<Inspection> inspect_path(const std::string& path) {
  std::error_code ignored;
  const bool config = std::filesystem::is_directory(path, ignored) || std::filesystem::path(path).extension() == ".json";
  if (config) return inspect_config(path);
  ROPEWALK_TRY(const Model model, Model::open_weights(path));
  Inspection found = inspect_spec(model.spec(), "gguf", path);
  found.file_bytes = model.file_bytes();
  return found;
}

}  // namespace ropewalk::app
