// llama.cpp's flags and GGUF's keys. Both hold float32, and both give YaRN's amplitude as a multiplier of its default 0.1 ln s
// + 1, where Hugging Face gives the amplitude itself.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/fail.h"
#include "workbench/export_forms.h"

namespace ropewalk {
namespace {

using Kind = RopeForm::Kind;
using nlohmann::json;

double as_float(double x) { return static_cast<double>(static_cast<float>(x)); }

double default_amplitude(double factor) { return factor > 1 ? 0.1 * std::log(factor) + 1 : 1; }

double multiplier(const RopeForm& form) {
  return form.kind == Kind::kYarn ? form.amplitude / default_amplitude(form.factor) : form.amplitude;
}

// A multiplier that float32 cannot tell from 1 is left out.
bool matters(double factor) { return std::abs(factor - 1) > 1e-7; }

void common_losses(const RopeForm& form, const FormContext& context, ExportTarget& target) {
  target.losses.push_back("numbers are float32 in this form: frequencies agree to about 1e-7");
  if (form.kind == Kind::kYarn && !form.truncate) {
    target.losses.push_back("truncate=0 cannot be said: the borders of YaRN's ramp are rounded to whole planes");
  }
  if (form.kind == Kind::kYarn && context.two_bases) {
    target.losses.push_back(
        "YaRN's mix is one setting for all layers there, so the window layers may be touched too: check before use");
  }
}

}  // namespace

ExportTarget to_llama_cpp(const RopeForm& form, const FormContext& context) {
  ExportTarget target;
  target.as = "llama.cpp";
  if (form.kind == Kind::kFactors || form.kind == Kind::kLlama3 || (context.file_has_factors && !context.unchanged)) {
    target.losses.push_back(
        "a factor for each plane cannot be given as flags: it needs the tensor rope_freqs.weight in the model file");
    return target;
  }
  target.expressible = true;
  std::string flags = fmt::format("-c {}", context.length);
  if (!context.unchanged) {
    common_losses(form, context, target);
    const char* type = form.kind == Kind::kYarn ? "yarn" : form.kind == Kind::kLinear ? "linear" : "none";
    flags += fmt::format(" --rope-scaling {} --rope-freq-base {}", type, form.theta);
    if (form.kind != Kind::kBase) flags += fmt::format(" --rope-scale {}", form.factor);
    if (form.kind == Kind::kYarn) {
      flags += fmt::format(" --yarn-orig-ctx {} --yarn-ext-factor 1 --yarn-beta-fast {} --yarn-beta-slow {}", form.original,
                           form.beta_fast, form.beta_slow);
    }
    if (matters(multiplier(form))) flags += fmt::format(" --yarn-attn-factor {}", multiplier(form));
  }
  target.snippet = flags;
  return target;
}

Result<RopeForm> read_llama_cpp(const std::string& snippet, const FormContext& context) {
  std::istringstream words(snippet);
  std::map<std::string, std::string> flags;
  for (std::string flag, value; words >> flag >> value;) flags[flag] = value;
  const auto number = [&](const char* flag, double fallback) {
    return flags.contains(flag) ? as_float(std::strtod(flags[flag].c_str(), nullptr)) : fallback;
  };
  RopeForm form;
  form.theta = number("--rope-freq-base", as_float(context.plain->theta));
  form.factor = number("--rope-scale", 1);
  form.original = static_cast<int64_t>(number("--yarn-orig-ctx", static_cast<double>(context.trained)));
  form.beta_fast = number("--yarn-beta-fast", 32);
  form.beta_slow = number("--yarn-beta-slow", 1);
  const std::string type = flags["--rope-scaling"];
  form.kind = type == "yarn" ? Kind::kYarn : type == "linear" ? Kind::kLinear : Kind::kBase;
  form.amplitude = number("--yarn-attn-factor", 1) * (form.kind == Kind::kYarn ? default_amplitude(form.factor) : 1);
  return form;
}

ExportTarget to_gguf(const RopeForm& form, const FormContext& context) {
  ExportTarget target;
  target.as = "gguf";
  const std::string prefix = context.architecture + ".";
  json keys = json::array(), tensors = json::object();
  const auto add = [&](const std::string& name, const char* type, json value) {
    keys.push_back({{"key", prefix + name}, {"type", type}, {"value", std::move(value)}});
  };
  if (context.file_has_factors && form.kind != Kind::kFactors && !context.unchanged) {
    target.losses.push_back("the file's own factor tensor stays in force unless it is removed: rope_freqs.weight");
  }
  target.expressible = true;
  add("context_length", "u32", context.length);
  if (!context.unchanged) {
    common_losses(form, context, target);
    add("rope.freq_base", "f32", form.theta);
    switch (form.kind) {
      case Kind::kBase: add("rope.scaling.type", "string", "none"); break;
      case Kind::kLinear:
        add("rope.scaling.type", "string", "linear");
        add("rope.scaling.factor", "f32", form.factor);
        break;
      case Kind::kYarn:
        add("rope.scaling.type", "string", "yarn");
        add("rope.scaling.factor", "f32", form.factor);
        add("rope.scaling.original_context_length", "u32", form.original);
        add("rope.scaling.yarn_beta_fast", "f32", form.beta_fast);
        add("rope.scaling.yarn_beta_slow", "f32", form.beta_slow);
        break;
      case Kind::kLlama3:
      case Kind::kFactors: {
        add("rope.scaling.type", "string", "none");
        RopeForm base = form;
        base.kind = Kind::kBase;
        const std::vector<double> from = frequencies(base, *context.plain), to = frequencies(form, *context.plain);
        json divisors = json::array();
        for (size_t i = 0; i < from.size(); ++i) divisors.push_back(to[i] > 0 ? from[i] / to[i] : 1);
        tensors["rope_freqs.weight"] = std::move(divisors);
        target.losses.push_back(
            "keys alone cannot say it: the file needs the f32 tensor rope_freqs.weight as given under \"tensors\"");
        break;
      }
    }
    if (matters(multiplier(form))) add("rope.scaling.attn_factor", "f32", multiplier(form));
  }
  json out = {{"keys", keys}};
  if (!tensors.empty()) out["tensors"] = tensors;
  target.snippet = out.dump(2);
  return target;
}

Result<RopeForm> read_gguf(const std::string& snippet, const FormContext& context) {
  const json object = json::parse(snippet, nullptr, false);
  if (!object.is_object() || !object.contains("keys"))
    return fail(ErrorCode::kCorrupt, "[export] expected an object with \"keys\"");
  std::map<std::string, json> keys;
  for (const json& entry : object["keys"]) {
    const std::string key = entry.at("key");
    keys[key.substr(context.architecture.size() + 1)] = entry.at("value");
  }
  const auto number = [&](const char* key, double fallback) {
    return keys.contains(key) ? as_float(keys[key].get<double>()) : fallback;
  };
  RopeForm form;
  form.theta = number("rope.freq_base", as_float(context.plain->theta));
  form.factor = number("rope.scaling.factor", 1);
  form.original = static_cast<int64_t>(number("rope.scaling.original_context_length", static_cast<double>(context.trained)));
  form.beta_fast = number("rope.scaling.yarn_beta_fast", 32);
  form.beta_slow = number("rope.scaling.yarn_beta_slow", 1);
  const std::string type = keys.contains("rope.scaling.type") ? keys["rope.scaling.type"].get<std::string>() : "none";
  form.kind = type == "yarn" ? Kind::kYarn : type == "linear" ? Kind::kLinear : Kind::kBase;
  if (object.contains("tensors")) {
    form.kind = Kind::kFactors;
    for (const json& value : object["tensors"]["rope_freqs.weight"]) form.factors.push_back(as_float(value.get<double>()));
  }
  form.amplitude = number("rope.scaling.attn_factor", 1) * (form.kind == Kind::kYarn ? default_amplitude(form.factor) : 1);
  return form;
}

}  // namespace ropewalk
