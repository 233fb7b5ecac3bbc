// A model file opened for use: its tensors (mapped), its spec, its tokenizer.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/model_spec.h"
#include "formats/tokenizer/tokenizer.h"
#include "ropewalk/error.h"

namespace ropewalk {

class Model {
 public:
  // A .gguf file (first shard of a split one too) or a Hugging Face folder. Errors name file, key or tensor, expected, found.
  // Reads metadata and shapes only; weights are read, and checked to be finite, when a pass first needs them.
  static Result<Model> open(const std::string& path);
  // The same without a tokenizer, for tests and tools that bring ids: tokenizer() must not be called.
  static Result<Model> open_weights(const std::string& path);

  const ModelSpec& spec() const { return spec_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::string& path() const { return path_; }
  const TensorSource& tensors() const { return *tensors_; }
  int64_t file_bytes() const { return file_bytes_; }
  const GgufFile* gguf() const { return gguf_; }  // null for other formats

 private:
  Result<void> load_gguf();
  Result<void> load_folder();

  std::string path_;
  std::unique_ptr<TensorSource> tensors_;
  const GgufFile* gguf_ = nullptr;
  std::unique_ptr<Tokenizer> tokenizer_;
  ModelSpec spec_;
  int64_t file_bytes_ = 0;
};

}  // namespace ropewalk
