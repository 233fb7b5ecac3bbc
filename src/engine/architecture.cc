#include "engine/architecture.h"

#include <array>
#include <string>

#include "base/fail.h"

namespace ropewalk {

#define ARCHITECTURE(name) Result<ModelSpec> fill_##name(const ModelSource& source);
#include "engine/models/registry.inc"
#undef ARCHITECTURE

namespace {

constexpr auto kArchitectures = std::to_array<Architecture>({
#define ARCHITECTURE(name) {#name, fill_##name},
#include "engine/models/registry.inc"
#undef ARCHITECTURE
});

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

Error unknown_architecture(const std::string& path, std::string_view key, std::string_view name) {
  std::string known;
  for (const Architecture& architecture : kArchitectures) known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  return fail(ErrorCode::kUnsupported, "[engine] {}: key {}: expected one of {}, but got \"{}\"", path, key, known, name);
}

}  // namespace ropewalk
