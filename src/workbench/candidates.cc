#include "workbench/candidates.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace ropewalk {
namespace {

// Factors are written with two digits, rounded up so that s L0 still reaches the target.
std::string factor_text(double s) { return fmt::format("{}", std::ceil(s * 100 - 1e-9) / 100); }

}  // namespace

std::vector<Candidate> closed_form_candidates(int64_t trained, int64_t target) {
  const double s = static_cast<double>(target) / static_cast<double>(trained);
  const std::string once = factor_text(s), twice = factor_text(2 * s);
  std::vector<std::string> settings = {"none",         "ntk:" + once,   "yarn:" + once, "dynamic:" + once,
                                       "ntk:" + twice, "linear:" + once};
  if (s >= 2) settings.push_back(fmt::format("dynamic:{}:horizon={}", once, target));
  if (s >= 4) {
    settings.push_back("yarn:" + twice);
    settings.push_back(fmt::format("llama3:{}:original={}", once, trained));
  }
  std::vector<Candidate> out;
  out.reserve(settings.size());
  for (const std::string& setting : settings) out.push_back(candidate_of(setting, trained, target));
  return out;
}

Candidate candidate_of(const std::string& setting, int64_t trained, int64_t target) {
  Candidate out{setting, static_cast<double>(target)};
  if (setting == "none" || setting == "plain") out.reach = static_cast<double>(trained);
  const size_t colon = setting.find(':');
  if (colon == std::string::npos) return out;
  const std::string name = setting.substr(0, colon);
  if (name == "dynamic") {
    if (setting.find("horizon") == std::string::npos) out.reach = std::numeric_limits<double>::infinity();
    return out;
  }
  if (name == "linear" || name == "ntk" || name == "yarn" || name == "llama3") {
    const double factor = std::strtod(setting.c_str() + colon + 1, nullptr);
    if (factor > 0) out.reach = factor * static_cast<double>(trained);
  }
  return out;
}

}  // namespace ropewalk
