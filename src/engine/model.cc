#include "engine/model.h"

#include <filesystem>

#include "base/fail.h"
#include "engine/architecture.h"
#include "formats/gguf.h"
#include "formats/hf_config.h"
#include "formats/safetensors.h"

namespace ropewalk {
namespace {

int64_t tensor_bytes(const TensorSource& tensors) {
  int64_t sum = 0;
  for (const StoredTensor& t : tensors.tensors()) sum += static_cast<int64_t>(t.data.size());
  return sum;
}

}  // namespace

Result<void> Model::load_gguf() {
  ROPEWALK_TRY(std::unique_ptr<GgufFile> file, GgufFile::open(path_));
  gguf_ = file.get();
  tensors_ = std::move(file);
  ROPEWALK_TRY(const std::string name, gguf_->text("general.architecture"));
  const Architecture* architecture = find_architecture(name);
  if (architecture == nullptr) return unknown_architecture(path_, "general.architecture", name);
  ROPEWALK_TRY(spec_, architecture->fill({.tensors = tensors_.get(), .gguf = gguf_}));
  return {};
}

Result<void> Model::load_folder() {
  ROPEWALK_TRY(const HfConfig config, load_hf_config(path_));
  // "gemma3_text" is the text part of "gemma3".
  std::string_view name = config.model_type;
  if (name.ends_with("_text")) name.remove_suffix(5);
  const Architecture* architecture = find_architecture(name);
  if (architecture == nullptr) return unknown_architecture(config.file, "model_type", config.model_type);
  ROPEWALK_TRY(tensors_, open_safetensors(path_));
  ROPEWALK_TRY(spec_, architecture->fill({.tensors = tensors_.get(), .config = &config}));
  return {};
}

Result<Model> Model::open_weights(const std::string& path) {
  Model model;
  model.path_ = path;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    ROPEWALK_CHECK_OK(model.load_folder());
  } else {
    ROPEWALK_CHECK_OK(model.load_gguf());
  }
  model.file_bytes_ = tensor_bytes(*model.tensors_);
  return model;
}

}  // namespace ropewalk
