// The registry seam of model architectures: models/NAME.cc fills a ModelSpec, registry.inc lists NAME.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/model_spec.h"
#include "formats/gguf.h"
#include "ropewalk/error.h"

namespace ropewalk {

struct HfConfig;

// Where a spec comes from. Exactly one of gguf and config is not null.
struct ModelSource {
  const TensorSource* tensors = nullptr;
  const GgufFile* gguf = nullptr;
  const HfConfig* config = nullptr;
  const std::string& path() const { return tensors->path(); }
};

struct Architecture {
  std::string_view name;  // GGUF's general.architecture
  Result<ModelSpec> (*fill)(const ModelSource& source) = nullptr;
};

std::span<const Architecture> architectures();
const Architecture* find_architecture(std::string_view name);  // null when unknown
// kUnsupported, naming the file, the key and the name, and listing what is known.
Error unknown_architecture(const std::string& path, std::string_view key, std::string_view name);

}  // namespace ropewalk
