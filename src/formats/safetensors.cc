#include "formats/safetensors.h"

#include <filesystem>
#include <map>
#include <new>
#include <unordered_map>

#include "base/atomic_file.h"
#include "base/fail.h"
#include "base/mapped_file.h"
#include "formats/printable.h"
#include "formats/safetensors_reader.h"

namespace ropewalk {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";

class SafetensorsSet final : public TensorSource {
 public:
  explicit SafetensorsSet(std::string path) : path_(std::move(path)) {}

  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const StoredTensor* find(const std::string& name) const override {
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : &tensors_[it->second];
  }
  const std::string& path() const override { return path_; }

  Result<void> add(std::span<const std::byte> bytes, const std::string& file) {
    ROPEWALK_TRY(std::vector<StoredTensor> tensors, safetensors::read_part(bytes, file));
    for (StoredTensor& tensor : tensors) {
      if (!by_name_.emplace(tensor.name, tensors_.size()).second) {
        return fail(ErrorCode::kCorrupt, "[safetensors] {}: tensor {}: expected it in one file only, but another has it too",
                    file, printable(tensor.name));
      }
      tensors_.push_back(std::move(tensor));
    }
    return {};
  }
  Result<void> add_file(const std::string& file) {
    ROPEWALK_TRY(MappedFile map, MappedFile::open(file));
    maps_.push_back(std::move(map));
    return add(maps_.back().bytes(), file);
  }

 private:
  std::string path_;
  std::vector<MappedFile> maps_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string, size_t> by_name_;
};

Result<std::unique_ptr<TensorSource>> open_index(const std::string& path) {
  ROPEWALK_TRY(const std::string text, read_file(path, safetensors::kMaxIndexBytes));
  ROPEWALK_TRY(const auto files, safetensors::parse_index(text, path));
  const fs::path folder = fs::path(path).parent_path();
  for (const auto& [file, tensors] : files) {
    std::error_code error;
    if (!fs::exists(folder / file, error)) {
      return fail(ErrorCode::kNotFound, "[safetensors] {}: weight_map.{}: expected the file {}, but it is missing", path,
                  printable(tensors.front()), printable(file));
    }
  }
  auto set = std::make_unique<SafetensorsSet>(path);
  for (const auto& [file, tensors] : files) {
    const std::string whole = (folder / file).string();
    ROPEWALK_CHECK_OK(set->add_file(whole));
    for (const std::string& tensor : tensors) {
      if (set->find(tensor) == nullptr) {
        return fail(ErrorCode::kCorrupt, "[safetensors] {}: tensor {}: expected it in {}, but that file does not have it", path,
                    printable(tensor), printable(file));
      }
    }
  }
  return std::unique_ptr<TensorSource>(std::move(set));
}

Result<std::unique_ptr<TensorSource>> open_file(const std::string& path) {
  auto set = std::make_unique<SafetensorsSet>(path);
  ROPEWALK_CHECK_OK(set->add_file(path));
  return std::unique_ptr<TensorSource>(std::move(set));
}

// The file to open in a folder: the usual names first, as transformers looks for them, else the only .safetensors file there.
Result<std::string> find_in_folder(const std::string& folder) {
  std::error_code error;
  for (const char* name : {kSingleName, kIndexName}) {
    const fs::path candidate = fs::path(folder) / name;
    if (fs::exists(candidate, error)) return candidate.string();
  }
  std::vector<std::string> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".safetensors") found.push_back(it->path().string());
  }
  if (error) return fail(ErrorCode::kIo, "[safetensors] {}: cannot read the folder: {}", folder, error.message());
  if (found.size() == 1) return found.front();
  return fail(ErrorCode::kNotFound, "[safetensors] {}: expected {} or {} in this folder, but got {} other .safetensors files",
              folder, kSingleName, kIndexName, found.size());
}

// Allocation is bounded by the file's size, but a large header may still ask for more than there is.
template <class F>
Result<std::unique_ptr<TensorSource>> guard_memory(const std::string& name, F&& body) {
  try {
    return body();  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the analyzer loses sight of the pointer in Result
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLarge, "[safetensors] {}: expected a header that fits the memory, but an allocation failed",
                name);
  }
}

}  // namespace

Result<std::unique_ptr<TensorSource>> open_safetensors(const std::string& path) {
  return guard_memory(path, [&]() -> Result<std::unique_ptr<TensorSource>> {
    std::error_code error;
    std::string file = path;
    if (fs::is_directory(path, error)) {
      ROPEWALK_TRY(file, find_in_folder(path));
    }
    return file.ends_with(".json") ? open_index(file) : open_file(file);
  });
}

Result<std::unique_ptr<TensorSource>> parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  return guard_memory(name, [&]() -> Result<std::unique_ptr<TensorSource>> {
    auto set = std::make_unique<SafetensorsSet>(name);
    ROPEWALK_CHECK_OK(set->add(bytes, name));
    return std::unique_ptr<TensorSource>(std::move(set));
  });
}

}  // namespace ropewalk
