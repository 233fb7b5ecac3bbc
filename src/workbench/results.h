// Results as the JSON of docs/command-line.md: names of fields are a contract.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "workbench/eval.h"
#include "workbench/export.h"
#include "workbench/extend.h"
#include "workbench/retrieval.h"

namespace ropewalk {

nlohmann::json to_json(const SettingRow& row);
nlohmann::json to_json(const PairRow& row);
nlohmann::json to_json(const Curve& curve);  // points as [from, to, mean, error]
nlohmann::json to_json(const RetrievalRow& row);
nlohmann::json to_json(const ExportTarget& target);

// {"settings", "paired", "curves", "notes", "complete"}
nlohmann::json eval_json(const EvalResult& result);
// eval_json and {"recommendation", "candidates", "price", "restart", "target", ...}. `reproduce`: the command that measures it
// again.
nlohmann::json extend_json(const ExtendResult& result, const std::string& reproduce);

}  // namespace ropewalk
