// Hugging Face's blocks and vLLM's override. attention_factor replaces the amplitude in the first; attn_factor multiplies the
// default 0.1 ln s + 1 in the second.
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "workbench/export_forms.h"

namespace ropewalk {
namespace {

using Kind = RopeForm::Kind;
using json = nlohmann::ordered_json;

double default_amplitude(double factor) { return factor > 1 ? 0.1 * std::log(factor) + 1 : 1; }

// The rule's own keys, without the base. `multiplies`: the amplitude as vLLM's attn_factor.
json rule_block(const RopeForm& form, const FormContext& context, bool multiplies) {
  const bool factors =
      form.kind == Kind::kFactors || (form.amplitude != 1 && (form.kind == Kind::kBase || form.kind == Kind::kLinear));
  if (factors) {
    // Both lists are the same, so no length switches between them.
    const std::vector<double> to = frequencies(form, *context.plain);
    RopeForm base = form;
    base.kind = Kind::kBase;
    const std::vector<double> from = frequencies(base, *context.plain);
    json list = json::array();
    for (size_t i = 0; i < to.size(); ++i) list.push_back(to[i] > 0 ? from[i] / to[i] : 1);
    return {{"rope_type", "longrope"},
            {"short_factor", list},
            {"long_factor", list},
            {"factor", static_cast<double>(context.length) / static_cast<double>(context.trained)},
            {"original_max_position_embeddings", context.trained},
            {"attention_factor", form.amplitude}};
  }
  switch (form.kind) {
    case Kind::kLinear: return {{"rope_type", "linear"}, {"factor", form.factor}};
    case Kind::kYarn: {
      json block = {{"rope_type", "yarn"},
                    {"factor", form.factor},
                    {"original_max_position_embeddings", form.original},
                    {"beta_fast", form.beta_fast},
                    {"beta_slow", form.beta_slow}};
      if (!form.truncate) block["truncate"] = false;
      if (!multiplies) {
        block["attention_factor"] = form.amplitude;
      } else if (std::abs(form.amplitude / default_amplitude(form.factor) - 1) > 1e-12) {
        block["attn_factor"] = form.amplitude / default_amplitude(form.factor);
      }
      return block;
    }
    case Kind::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", form.factor},
              {"low_freq_factor", form.low},
              {"high_freq_factor", form.high},
              {"original_max_position_embeddings", form.original}};
    default: return {{"rope_type", "default"}};
  }
}

json parameters(const RopeForm& form, const FormContext& context, bool multiplies) {
  json block = rule_block(form, context, multiplies);
  block["rope_theta"] = form.theta;
  if (context.head_dim > 0 && context.plain->rotated.count < context.head_dim) {
    block["partial_rotary_factor"] = static_cast<double>(context.plain->rotated.count) / context.head_dim;
  }
  if (!context.two_bases) return block;
  return {{"full_attention", block}, {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", context.local_theta}}}};
}

json old_keys(const RopeForm& form, const FormContext& context, bool multiplies) {
  json out = {{"rope_theta", form.theta}};
  if (context.two_bases) out["rope_local_base_freq"] = context.local_theta;
  json block = rule_block(form, context, multiplies);
  out["rope_scaling"] = block["rope_type"] == "default" ? json(nullptr) : std::move(block);
  out["max_position_embeddings"] = context.length;
  return out;
}

json new_keys(const RopeForm& form, const FormContext& context, bool multiplies) {
  return {{"rope_parameters", parameters(form, context, multiplies)}, {"max_position_embeddings", context.length}};
}

void common_losses(const RopeForm& form, ExportTarget& target) {
  if (form.kind == Kind::kFactors) {
    target.losses.push_back("free factors are written as longrope with both lists equal; not every model class reads that");
  }
}

Result<RopeForm> read_block(json block, const FormContext& context, bool multiplies) {
  if (block.contains("full_attention")) block = block["full_attention"];
  if (!block.is_object() || !block.contains("rope_type") || !block.contains("rope_theta")) {
    return fail(ErrorCode::kCorrupt, "[export] expected a block with rope_type and rope_theta, but got {}", block.dump());
  }
  const std::string type = block["rope_type"];
  RopeForm form;
  form.theta = block["rope_theta"];
  form.factor = block.value("factor", 1.0);
  form.original = block.value("original_max_position_embeddings", context.trained);
  form.beta_fast = block.value("beta_fast", 32.0);
  form.beta_slow = block.value("beta_slow", 1.0);
  form.truncate = block.value("truncate", true);
  form.low = block.value("low_freq_factor", 1.0);
  form.high = block.value("high_freq_factor", 4.0);
  if (type == "linear") {
    form.kind = Kind::kLinear;
  } else if (type == "yarn") {
    form.kind = Kind::kYarn;
    form.amplitude = multiplies ? default_amplitude(form.factor) * block.value("attn_factor", 1.0)
                                : block.value("attention_factor", default_amplitude(form.factor));
  } else if (type == "llama3") {
    form.kind = Kind::kLlama3;
  } else if (type == "longrope") {
    form.kind = Kind::kFactors;
    form.factors = block["long_factor"].get<std::vector<double>>();
    form.amplitude = block.value("attention_factor", 1.0);
  } else if (type != "default") {
    return fail(ErrorCode::kCorrupt, "[export] expected a known rope_type, but got {}", type);
  }
  return form;
}

// The argument of --hf-overrides in the first command line.
Result<json> override_of(const std::string& snippet) {
  const size_t open = snippet.find('\''), close = snippet.find('\'', open + 1);
  if (open == std::string::npos || close == std::string::npos)
    return fail(ErrorCode::kCorrupt, "[export] expected a quoted override");
  json object = json::parse(snippet.substr(open + 1, close - open - 1), nullptr, false);
  if (!object.is_object() || !object.contains("rope_parameters"))
    return fail(ErrorCode::kCorrupt, "[export] expected rope_parameters in the override");
  return object["rope_parameters"];
}

}  // namespace

ExportTarget to_hf(const RopeForm& form, const FormContext& context) {
  ExportTarget target;
  target.as = "hf";
  target.expressible = true;
  common_losses(form, target);
  if (form.kind == Kind::kYarn &&
      std::abs(form.factor * static_cast<double>(form.original) - static_cast<double>(context.length)) > 0.5) {
    target.losses.push_back(
        fmt::format("factor {} times {} is not the context {}: transformers remarks on it and uses the factor", form.factor,
                    form.original, context.length));
  }
  target.snippet =
      json{{"transformers_5", new_keys(form, context, false)}, {"transformers_4", old_keys(form, context, false)}}.dump(2);
  return target;
}

Result<RopeForm> read_hf(const std::string& snippet, const FormContext& context) {
  const json object = json::parse(snippet, nullptr, false);
  if (!object.is_object()) return fail(ErrorCode::kCorrupt, "[export] expected an object");
  ROPEWALK_TRY(const RopeForm form, read_block(object["transformers_5"]["rope_parameters"], context, false));
  // The older dialect must say the same.
  json old = object["transformers_4"]["rope_scaling"];
  if (old.is_null()) old = {{"rope_type", "default"}};
  old["rope_theta"] = object["transformers_4"]["rope_theta"];
  ROPEWALK_TRY(const RopeForm older, read_block(old, context, false));
  if (frequencies(form, *context.plain) != frequencies(older, *context.plain) || form.amplitude != older.amplitude) {
    return fail(ErrorCode::kCorrupt, "[export] expected both dialects to give the same frequencies");
  }
  return form;
}

ExportTarget to_vllm(const RopeForm& form, const FormContext& context) {
  ExportTarget target;
  target.as = "vllm";
  target.expressible = true;
  common_losses(form, target);
  target.losses.push_back(
      "an override replaces a whole block, so it repeats the base; keys of the file's block that are not here are gone");
  const auto line = [&](const json& object) {
    return fmt::format("vllm serve MODEL --max-model-len {} --hf-overrides '{}'", context.length, object.dump());
  };
  target.snippet = line(new_keys(form, context, true)) +
                   "\n# where the model's config has rope_scaling instead of rope_parameters:\n" +
                   line(old_keys(form, context, true));
  return target;
}

Result<RopeForm> read_vllm(const std::string& snippet, const FormContext& context) {
  ROPEWALK_TRY(const json block, override_of(snippet));
  return read_block(block, context, true);
}

void finish(ExportTarget& target, const FormContext& context, const RotarySchedule& measured) {
  const bool gguf = target.as == "gguf", hf = target.as == "hf", llama = target.as == "llama.cpp";
  if (target.expressible) {
    Result<RopeForm> read = llama  ? read_llama_cpp(target.snippet, context)
                            : gguf ? read_gguf(target.snippet, context)
                            : hf   ? read_hf(target.snippet, context)
                                   : read_vllm(target.snippet, context);
    if (!read) {
      target.expressible = false;
      target.losses.push_back("the form could not be read back: " + read.error().message());
    } else if (!context.unchanged) {
      target.max_relative_frequency_error = relative_error(frequencies(*read, *context.plain), measured.inv_freq);
      target.amplitude_error = std::abs(read->amplitude - measured.amplitude);
    }
  }
  const std::string title = fmt::format("Setting {} for a context of {} tokens (trained for {}), written by ropewalk.",
                                        context.setting, context.length, context.trained);
  const std::string check = fmt::format("read back: frequencies within {:.1e} (relative), amplitude within {:.1e}",
                                        target.max_relative_frequency_error, target.amplitude_error);
  if (gguf || hf) {
    json object = target.expressible ? json::parse(target.snippet) : json::object();
    object["about"] = title;
    object["expressible"] = target.expressible;
    object["losses"] = target.losses;
    if (target.expressible) {
      object["round_trip"] = {{"max_relative_frequency_error", target.max_relative_frequency_error},
                              {"amplitude_error", target.amplitude_error}};
    }
    target.files = {{gguf ? "export/gguf-metadata.json" : "export/hf.json", object.dump(2) + "\n"}};
    return;
  }
  std::string text = "# " + title + "\n";
  for (const std::string& loss : target.losses)
    text += "# " + std::string(target.expressible ? "loss: " : "cannot be expressed: ") + loss + "\n";
  if (target.expressible) text += "# " + check + "\n" + target.snippet + "\n";
  target.files = {{llama ? "export/llama.cpp.txt" : "export/vllm.txt", text}};
}

}  // namespace ropewalk
