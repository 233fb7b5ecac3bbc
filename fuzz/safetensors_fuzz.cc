// safetensors, and the index of a sharded set, from any bytes.
#include <vector>

#include "formats/safetensors.h"
#include "formats/safetensors_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ropewalk;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto index = safetensors::parse_index(text, "fuzz")) {
    for (const auto& [file, tensors] : *index) {
      if (file.find('/') != std::string::npos || tensors.empty()) __builtin_trap();
    }
  }
  const auto file = parse_safetensors(std::as_bytes(std::span<const uint8_t>(data, size)), "fuzz");
  if (!file) return 0;
  for (const StoredTensor& tensor : (*file)->tensors()) {
    if ((*file)->find(tensor.name) != &tensor) __builtin_trap();
    if (tensor.data.empty()) continue;
    std::vector<float> out(static_cast<size_t>(tensor.elements()));
    dequantize_rows(tensor, 0, tensor.rows(), out.data());
  }
  return 0;
}
