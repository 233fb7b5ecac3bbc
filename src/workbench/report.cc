#include "workbench/report.h"

#include <fmt/format.h>

#include "ropewalk/version.h"
#include "workbench/report_assets.h"

namespace ropewalk {
namespace {

std::string with_commas(int64_t n) {
  std::string text = std::to_string(n);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

// Replaces {{name}} in one pass, so that what is filled in is never read as a template again.
template <class Lookup>
std::string fill(std::string_view page, const Lookup& lookup) {
  std::string out;
  for (size_t at = 0;;) {
    const size_t open = page.find("{{", at), close = open == std::string_view::npos ? open : page.find("}}", open);
    out.append(page.substr(at, open == std::string_view::npos ? open : open - at));
    if (close == std::string_view::npos) {
      if (open != std::string_view::npos) out.append(page.substr(open));
      return out;
    }
    out.append(lookup(page.substr(open + 2, close - open - 2)));
    at = close + 2;
  }
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string json_for_script(const nlohmann::json& value) {
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  // In JSON these stand inside strings only, where an escape means the same; so no "</script>" and no "<!--" can occur.
  for (const char c : text) {
    switch (c) {
      case '<': out += "\\u003c"; break;
      case '>': out += "\\u003e"; break;
      case '&': out += "\\u0026"; break;
      default: out += c;
    }
  }
  return out;
}

std::string headline(const nlohmann::json& results, int64_t context_trained) {
  const auto rec = results.find("recommendation");
  if (rec == results.end() || rec->is_null()) {
    if (results.contains("candidates")) return "No answer yet: the measurement was cut short";
    return "Loss by position, setting by setting";
  }
  const std::string setting = rec->at("setting");
  const int64_t usable = rec->at("usable_to"), target = results.at("target");
  if (setting == results.at("candidates").at(0).at("setting")) return "Leave this model as it is";
  if (usable <= context_trained) {
    return fmt::format("{} helps past {} tokens, but does not make them usable", setting, with_commas(context_trained));
  }
  if (usable < target)
    return fmt::format("With {}, this model reads {} tokens; past that, its last {} alone serve it better", setting,
                       with_commas(usable), with_commas(context_trained));
  return fmt::format("With {}, this model reads {} tokens instead of {}", setting, with_commas(usable),
                     with_commas(context_trained));
}

std::string report_html(const ReportInput& input) {
  nlohmann::json facts = nlohmann::json::array();
  for (const auto& [name, value] : input.facts) facts.push_back({name, value});
  const nlohmann::json data = {{"ropewalk", ROPEWALK_VERSION}, {"results", input.results},
                               {"exports", input.exports},     {"exported", input.exported},
                               {"reproduce", input.reproduce}, {"facts", facts},
                               {"lead", input.lead},           {"model", {{"context_trained", input.context_trained}}}};
  return fill(web::report_html, [&](std::string_view name) -> std::string {
    if (name == "title") return escape_html(input.title);
    if (name == "kicker") return escape_html(input.kicker);
    if (name == "headline") return escape_html(input.headline);
    if (name == "css") return std::string(web::report_css);
    if (name == "js") return std::string(web::report_js);
    if (name == "d3") return std::string(web::report_d3_license) + std::string(web::report_d3);
    if (name == "data") return json_for_script(data);
    return {};
  });
}

}  // namespace ropewalk
