// safetensors: one file, or a folder with model.safetensors.index.json. By mmap, every offset checked.
#pragma once

#include <memory>
#include <string>

#include "formats/tensor.h"
#include "ropewalk/error.h"

namespace ropewalk {

// `path`: a .safetensors file, an index (.json), or a folder that holds either. Types F32, F16, BF16.
Result<std::unique_ptr<TensorSource>> open_safetensors(const std::string& path);
// Over bytes that the caller keeps alive.
Result<std::unique_ptr<TensorSource>> parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

}  // namespace ropewalk
