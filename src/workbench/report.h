// The report: one HTML file that needs nothing beside it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ropewalk {

struct ReportInput {
  std::string title;                                 // of the window
  std::string kicker;                                // one line above the headline: model and text
  std::string headline;                              // the answer, in words
  std::string lead;                                  // a sentence below it, where there is no recommendation
  nlohmann::json results;                            // eval_json() or extend_json()
  nlohmann::json exports = nlohmann::json::array();  // of to_json(ExportTarget)
  std::string exported;                              // the setting that they hold
  int64_t context_trained = 0;
  std::string reproduce;
  std::vector<std::pair<std::string, std::string>> facts;  // machine and model, name and value
};

// Whatever the strings hold (names of files, of settings, of models), they appear as text: nothing of them is taken as markup
// or script.
std::string report_html(const ReportInput& input);

// The same for one JSON document inside <script>, and for text inside HTML.
std::string json_for_script(const nlohmann::json& value);
std::string escape_html(std::string_view text);

// The answer in one line.
std::string headline(const nlohmann::json& results, int64_t context_trained);

}  // namespace ropewalk
