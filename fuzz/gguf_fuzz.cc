// GGUF from any bytes: it parses, or it is refused with a message. What parses is read to its last element.
#include <vector>

#include "formats/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ropewalk;
  const auto file = GgufFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!file) return file.error().message().empty() ? -1 : 0;
  for (const GgufValue& value : (*file)->metadata()) {
    if (describe(value).empty() || (*file)->find_key(value.key) != &value) __builtin_trap();
    (void)(*file)->integer(value.key, -5, 5);
    (void)(*file)->number(value.key);
    (void)(*file)->text(value.key);
  }
  for (const StoredTensor& tensor : (*file)->tensors()) {
    if ((*file)->find(tensor.name) != &tensor) __builtin_trap();
    std::vector<float> out(static_cast<size_t>(tensor.elements()));  // at most 8 times the input
    dequantize_rows(tensor, 0, tensor.rows(), out.data());
  }
  return 0;
}
