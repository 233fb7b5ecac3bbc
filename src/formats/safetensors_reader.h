// Internal to the safetensors reader: the tensors of one file, and the index of a set.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensor.h"
#include "ropewalk/error.h"

namespace ropewalk::safetensors {

// In the order of their data. `name` stands for the path in messages.
Result<std::vector<StoredTensor>> read_part(std::span<const std::byte> bytes, const std::string& name);

constexpr size_t kMaxIndexBytes = 100'000'000;

// model.safetensors.index.json: file -> the tensors that the index says it holds. Only plain names of files in the same folder.
Result<std::map<std::string, std::vector<std::string>>> parse_index(std::string_view text, const std::string& name);

}  // namespace ropewalk::safetensors
