// What `inspect` found in a file, before it is printed.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/model_spec.h"
#include "ropewalk/error.h"

namespace ropewalk::app {

// Layers with one and the same position scheme.
struct LayerGroup {
  std::string layers;  // "0-4,6-10", counted from 0
  int64_t count = 0;
  LayerPosition position;
};

// How the planes of a schedule fare within a context: in units of positions, a plane's wavelength is 2 pi / inv_freq.
struct PlaneSummary {
  int planes = 0;
  int still = 0;                     // planes that never turn (frequency 0)
  int incomplete = 0;                // planes that turn, but complete no turn within the context
  int first_incomplete = -1;         // the first plane of those, -1 when none
  double shortest = 0, longest = 0;  // wavelengths of the planes that turn
};
PlaneSummary summarize_planes(const RotarySchedule& schedule, int64_t context);

struct Finding {
  std::string code;      // "RW001": docs/command-line.md
  std::string severity;  // "error", "warning", "note"
  std::string key;       // of the file; may be empty
  std::string message;
};

struct Inspection {
  std::string path;
  std::string dialect;  // "gguf", "hf"
  std::string architecture, name;
  int heads = 0, kv_heads = 0, head_dim = 0;
  int64_t layer_count = 0;
  int64_t file_bytes = 0;  // of the tensors; 0 for a lone config
  int64_t context_trained = 0, context_original = 0, context_claimed = 0;
  std::vector<LayerGroup> groups;
  std::vector<Finding> findings;
};

// A .gguf file, a Hugging Face folder, or a lone config.json. Reads metadata only.
Result<Inspection> inspect_path(const std::string& path);

// The same from what is known already. `dialect`: "gguf" or "hf".
Inspection inspect_spec(const ModelSpec& spec, const std::string& dialect, const std::string& path);

// Equal layers together, in the order of their first.
std::vector<LayerGroup> group_layers(const std::vector<LayerSpec>& layers);
// {0, 1, 2, 5} -> "0-2,5"
std::string format_ranges(const std::vector<int64_t>& sorted);

// The fields of interface.md; `model` is the envelope's.
nlohmann::json inspection_model(const Inspection& inspection);
nlohmann::json inspection_body(const Inspection& inspection);
// For the terminal. `planes`: a line for each plane as well.
std::string inspection_text(const Inspection& inspection, bool planes);

}  // namespace ropewalk::app
