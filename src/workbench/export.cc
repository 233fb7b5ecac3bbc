#include "workbench/export.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/fail.h"
#include "workbench/export_forms.h"
#include "workbench/rope_form.h"

namespace ropewalk {
namespace {

using Kind = RopeForm::Kind;

// What the setting does to the model as a whole, before any target is asked.
struct Subject {
  const RotaryLayer* layer = nullptr;  // a layer that the setting acts on
  const RotarySchedule* target = nullptr;
  const RotaryLayer* local = nullptr;  // a window layer with another schedule, or null
  std::vector<std::string> obstacles;  // reasons why no server can load this
  std::vector<std::string> losses;     // things that every server loses
};

Result<Subject> examine(const ExportRequest& request) {
  Subject subject;
  for (size_t i = 0; i < request.layers.size(); ++i) {
    const RotaryLayer& layer = request.layers[i];
    const AppliedLayer& applied = request.applied.layers[i];
    if (layer.trained == nullptr) continue;
    if (applied.pairs != nullptr) {
      subject.obstacles = {
          applied.pairs->name().empty()
              ? "frequencies that follow the position within a sequence (steps) have no counterpart in any server"
              : "positions that depend on the pair of tokens have no counterpart in the servers' configurations"};
      if (subject.layer == nullptr) subject.layer = &layer, subject.target = layer.trained;
      continue;
    }
    if (!applied.rotary) continue;
    if (!layer.global) {
      if (subject.local == nullptr) subject.local = &layer;
      if (!(*applied.rotary == *layer.trained))
        subject.obstacles.push_back("the setting changes the window layers, which servers configure apart");
      continue;
    }
    if (applied.reach != layer.reach)
      subject.losses.push_back("the attention window of the setting is not part of a rotary configuration");
    if (subject.layer == nullptr) {
      subject.layer = &layer;
      subject.target = &*applied.rotary;
    } else if (!(*applied.rotary == *subject.target)) {
      subject.obstacles.push_back("layers of one kind end up with different frequencies");
    }
  }
  if (subject.layer == nullptr)
    return fail(ErrorCode::kUnsupported, "[export] expected a model with rotary layers, but got none");
  if (!(subject.target->query_temperature == subject.layer->trained->query_temperature)) {
    subject.losses.push_back("the query factor (logn) cannot be expressed and is lost");
  }
  const auto tidy = [](std::vector<std::string>& list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  };
  tidy(subject.obstacles);
  tidy(subject.losses);
  return subject;
}

}  // namespace

Result<std::vector<ExportTarget>> export_setting(const ExportRequest& request) {
  ROPEWALK_TRY(const Subject subject, examine(request));
  const RotarySchedule& plain = subject.layer->plain != nullptr ? *subject.layer->plain : *subject.layer->trained;
  ROPEWALK_TRY(const RopeForm form, describe(*subject.target, plain, request.setting, request.context_trained));
  FormContext context;
  context.setting = request.setting.text;
  context.architecture = request.architecture;
  context.trained = request.context_trained;
  context.length = request.context;
  context.head_dim = request.head_dim;
  context.plain = &plain;
  context.unchanged = request.applied.layers.size() == request.layers.size() && subject.obstacles.empty() &&
                      relative_error(subject.target->inv_freq, subject.layer->trained->inv_freq) == 0 &&
                      subject.target->amplitude == subject.layer->trained->amplitude;
  if (subject.local != nullptr) {
    context.two_bases = true;
    context.local_theta = subject.local->trained->theta;
  }
  if (auto own = describe(*subject.layer->trained, plain, {}, request.context_trained)) {
    context.file_has_factors = own->kind == Kind::kFactors;
  }
  std::vector<ExportTarget> targets = {to_llama_cpp(form, context), to_gguf(form, context), to_hf(form, context),
                                       to_vllm(form, context)};
  for (ExportTarget& target : targets) {
    target.losses.insert(target.losses.begin(), subject.losses.begin(), subject.losses.end());
    if (!subject.obstacles.empty()) {
      target.expressible = false;
      target.losses = subject.obstacles;
    }
    finish(target, context, *subject.target);
  }
  return targets;
}

Result<void> write_exports(const std::string& folder, const std::vector<ExportTarget>& targets) {
  for (const ExportTarget& target : targets) {
    for (const ExportFile& file : target.files) {
      const std::filesystem::path path = std::filesystem::path(folder) / file.name;
      std::error_code failed;
      std::filesystem::create_directories(path.parent_path(), failed);
      if (failed) {
        return fail(ErrorCode::kIo, "[export] {}: expected a folder that can be made, but got: {}", path.parent_path().string(),
                    failed.message());
      }
      ROPEWALK_CHECK_OK(write_file_atomically(path.string(), file.contents));
    }
  }
  return {};
}

}  // namespace ropewalk
