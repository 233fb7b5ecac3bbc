// The engine behind the workbench's Scorer, and what the workbench says about a model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/forward.h"
#include "workbench/export.h"
#include "workbench/measure.h"
#include "workbench/retrieval.h"

namespace ropewalk {

// `model` must outlive what is returned. Expanded weights are kept between passes where they fit into a quarter of the memory
// that is available now. One pass at a time.
Scorer model_scorer(const Model& model, ForwardOptions options);
// Greedy continuation through a Session.
Retriever model_retriever(const Model& model, ForwardOptions options);

// A text's bytes as a Text of the corpus; the BOS that every window starts with, where the model's file asks for one.
Corpus make_corpus(const Model& model, std::vector<Text> texts);

// Errors: as parse_setting and apply_setting. The notes say how a setting was read.
Result<std::vector<std::string>> setting_notes(const Model& model, const std::string& setting, int64_t length);
// True when the two prefixes of equal length score alike: by effect on every layer, not by name.
bool same_positions(const AppliedSetting& a, const AppliedSetting& b, int64_t length);

Result<std::vector<ExportTarget>> export_model_setting(const Model& model, const std::string& setting, int64_t context);
// A server can load it: some form of export expresses it.
bool is_expressible(const Model& model, const std::string& setting, int64_t context);

// Names the model, precision and version for a journal: size, time of change and the first bytes of its files.
std::string measurement_context(const Model& model, Precision precision);
// {"path", "name", "architecture", "bytes", "layers", "heads", "kv_heads", "head_dim", "width", "vocabulary",
// "context_trained", ...}
nlohmann::json model_json(const Model& model);

}  // namespace ropewalk
