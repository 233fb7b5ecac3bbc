#include "base/fail.h"
#include "formats/json.h"
#include "formats/printable.h"
#include "formats/safetensors_reader.h"

namespace ropewalk::safetensors {

using nlohmann::json;

namespace {

// A file of the index must lie beside it: a plain name, so that no index can reach out of its folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\\') == std::string::npos && name.find('\0') == std::string::npos;
}

}  // namespace

Result<std::map<std::string, std::vector<std::string>>> parse_index(std::string_view text, const std::string& name) {
  ROPEWALK_TRY(const json index,
               parse_json(text, {.who = "safetensors", .name = name, .max_bytes = kMaxIndexBytes, .max_depth = 8}));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return fail(ErrorCode::kCorrupt, "[safetensors] {}: weight_map: expected an object of tensor and file names, but got {}",
                name, index.is_object() && index.contains("weight_map") ? describe(index["weight_map"]) : "none");
  }
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (!file.is_string() || !is_plain_name(file.get_ref<const std::string&>())) {
      return fail(ErrorCode::kCorrupt,
                  "[safetensors] {}: weight_map.{}: expected the name of a file in the same folder, but got {}", name,
                  printable(tensor), describe(file));
    }
    files[file.get<std::string>()].push_back(tensor);
  }
  return files;
}

}  // namespace ropewalk::safetensors
