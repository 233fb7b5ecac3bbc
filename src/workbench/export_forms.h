// How each target writes a RopeForm, and how it would read it: one pair of functions a target, so that a round trip can be
// checked.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "workbench/export.h"
#include "workbench/rope_form.h"

namespace ropewalk {

struct FormContext {
  std::string setting;
  std::string architecture;
  int64_t trained = 0, length = 0;
  int head_dim = 0;
  const RotarySchedule* plain = nullptr;
  bool unchanged = false;         // the setting leaves the model as its file says
  bool file_has_factors = false;  // the file's own frequencies are not a base, a factor or YaRN's
  bool two_bases = false;         // window layers rotate by another base, which stays as it is
  double local_theta = 0;
};

// Fill as, expressible, losses and snippet.
ExportTarget to_llama_cpp(const RopeForm& form, const FormContext& context);  // flags
ExportTarget to_gguf(const RopeForm& form, const FormContext& context);       // keys, types and values; a tensor where needed
ExportTarget to_hf(const RopeForm& form, const FormContext& context);         // rope_scaling and rope_parameters
ExportTarget to_vllm(const RopeForm& form, const FormContext& context);       // --hf-overrides

// The form that the target's engine would compute with, from the text of the snippet. Errors: kCorrupt for text of another
// shape.
Result<RopeForm> read_llama_cpp(const std::string& snippet, const FormContext& context);
Result<RopeForm> read_gguf(const std::string& snippet, const FormContext& context);
Result<RopeForm> read_hf(const std::string& snippet, const FormContext& context);
Result<RopeForm> read_vllm(const std::string& snippet, const FormContext& context);

// Reads the snippet back, fills the errors, and composes the file.
void finish(ExportTarget& target, const FormContext& context, const RotarySchedule& measured);

}  // namespace ropewalk
