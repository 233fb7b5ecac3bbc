#include "formats/gguf.h"

#include <new>
#include <unordered_map>
#include <utility>

#include "base/fail.h"
#include "base/mapped_file.h"
#include "formats/gguf_reader.h"
#include "formats/printable.h"

namespace ropewalk {
namespace {

using gguf::Part;

class GgufSet final : public GgufFile {
 public:
  // Metadata comes from the first part, tensors from all of them. The maps own the bytes (none when the caller does).
  static Result<std::unique_ptr<GgufFile>> make(std::vector<Part> parts, std::vector<MappedFile> maps) {
    std::unique_ptr<GgufSet> set(new GgufSet);
    set->maps_ = std::move(maps);
    Part& first = parts.front();
    set->path_ = first.name;
    set->version_ = first.version;
    set->data_start_ = first.data_start;
    set->metadata_ = std::move(first.metadata);
    size_t count = 0;
    for (const Part& part : parts) count += part.tensors.size();
    set->tensors_.reserve(count);  // no growth: the maps below point into the vectors
    for (Part& part : parts) {
      for (StoredTensor& tensor : part.tensors) {
        if (set->by_name_.contains(tensor.name)) {
          return fail(ErrorCode::kCorrupt,
                      "[gguf] {}: tensor {}: expected each name in one file of the set, but got it a second time", part.name,
                      printable(tensor.name));
        }
        set->tensors_.push_back(std::move(tensor));
        set->by_name_.emplace(set->tensors_.back().name, set->tensors_.size() - 1);
      }
    }
    for (size_t i = 0; i < set->metadata_.size(); ++i) set->by_key_.emplace(set->metadata_[i].key, i);
    ROPEWALK_CHECK_OK(validate_position_keys(*set));
    return std::unique_ptr<GgufFile>(std::move(set));
  }

  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const StoredTensor* find(const std::string& name) const override {
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : &tensors_[it->second];
  }
  const std::string& path() const override { return path_; }
  uint32_t version() const override { return version_; }
  uint64_t data_start() const override { return data_start_; }
  const std::vector<GgufValue>& metadata() const override { return metadata_; }
  const GgufValue* find_key(std::string_view key) const override {
    const auto it = by_key_.find(key);
    return it == by_key_.end() ? nullptr : &metadata_[it->second];
  }

 private:
  GgufSet() = default;
  std::vector<MappedFile> maps_;
  std::string path_;
  uint32_t version_ = 0;
  uint64_t data_start_ = 0;
  std::vector<GgufValue> metadata_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string_view, size_t> by_key_, by_name_;
};

const GgufValue* find_in(const Part& part, std::string_view key) {
  for (const GgufValue& entry : part.metadata) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

// A key of a split set as a number from low to high; `absent` when the part does not have it.
Result<int64_t> split_number(const Part& part, std::string_view key, int64_t low, int64_t high, int64_t absent) {
  const GgufValue* entry = find_in(part, key);
  if (entry == nullptr) return absent;
  const std::optional<int64_t> value = as_integer(*entry);
  if (!value || *value < low || *value > high) {
    const std::string wanted = low == high ? fmt::format("{}", low) : fmt::format("an integer from {} to {}", low, high);
    return fail(ErrorCode::kCorrupt, "[gguf] {}: byte {}: key {}: expected {}, but got {}", part.name, entry->offset, key,
                wanted, describe(*entry));
  }
  return *value;
}

constexpr int64_t kMaxParts = 65535;  // split.no and split.count are u16

std::string part_suffix(int64_t index, int64_t count) { return fmt::format("-{:05}-of-{:05}.gguf", index + 1, count); }

Result<Part> open_part(const std::string& path, std::vector<MappedFile>& maps) {
  ROPEWALK_TRY(MappedFile map, MappedFile::open(path));
  ROPEWALK_TRY(Part part, gguf::read_part(map.bytes(), path));
  maps.push_back(std::move(map));
  return part;
}

// Opens the siblings of the first part and checks that all of them belong together.
Result<void> open_siblings(std::vector<Part>& parts, std::vector<MappedFile>& maps) {
  const std::string path = parts.front().name;
  ROPEWALK_TRY(const int64_t count, split_number(parts.front(), "split.count", 0, kMaxParts, 1));
  if (count <= 1) return {};
  ROPEWALK_TRY(const int64_t number, split_number(parts.front(), "split.no", 0, count - 1, 0));
  const std::string suffix = part_suffix(number, count);
  const std::string wanted_suffix = part_suffix(0, count);
  if (!path.ends_with(suffix)) {
    return fail(ErrorCode::kInvalidArgument,
                "[gguf] {}: expected a name that ends in {}, since split.no is {} and split.count {}", path, suffix, number,
                count);
  }
  const std::string stem = path.substr(0, path.size() - suffix.size());
  if (number != 0) {
    return fail(ErrorCode::kInvalidArgument, "[gguf] {}: expected the first file of the split set, {}{}, but got file {} of {}",
                path, stem, wanted_suffix, number + 1, count);
  }
  for (int64_t i = 1; i < count; ++i) {
    const std::string sibling = stem + part_suffix(i, count);
    auto part = open_part(sibling, maps);
    if (!part && part.error().code() == ErrorCode::kNotFound) {
      return fail(ErrorCode::kNotFound, "[gguf] {}: expected file {} of the {} of this split set, but it is missing: {}", path,
                  i + 1, count, sibling);
    }
    if (!part) return part.error();
    ROPEWALK_CHECK_OK([&]() -> Result<void> {
      ROPEWALK_TRY([[maybe_unused]] const int64_t no, split_number(*part, "split.no", i, i, -1));
      ROPEWALK_TRY([[maybe_unused]] const int64_t all, split_number(*part, "split.count", count, count, -1));
      if (no != i || all != count) {
        return fail(ErrorCode::kCorrupt,
                    "[gguf] {}: expected the keys split.no = {} and split.count = {}, but got a file without them", sibling, i,
                    count);
      }
      return {};
    }());
    parts.push_back(*std::move(part));
  }
  size_t tensors = 0;
  for (const Part& part : parts) tensors += part.tensors.size();
  const auto total = static_cast<int64_t>(tensors);
  const auto declared = split_number(parts.front(), "split.tensors.count", total, total, total);
  return declared ? Result<void>() : Result<void>(declared.error());
}

// Allocation is bounded by the file's size, but a large file may still ask for more than there is.
template <class F>
Result<std::unique_ptr<GgufFile>> guard_memory(const std::string& name, F&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLarge, "[gguf] {}: expected metadata that fits the memory, but an allocation failed", name);
  }
}

}  // namespace

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path) {
  return guard_memory(path, [&]() -> Result<std::unique_ptr<GgufFile>> {
    std::vector<MappedFile> maps;
    std::vector<Part> parts;
    ROPEWALK_TRY(Part first, open_part(path, maps));
    parts.push_back(std::move(first));
    ROPEWALK_CHECK_OK(open_siblings(parts, maps));
    return GgufSet::make(std::move(parts), std::move(maps));
  });
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  return guard_memory(name, [&]() -> Result<std::unique_ptr<GgufFile>> {
    std::vector<Part> parts;
    ROPEWALK_TRY(Part part, gguf::read_part(bytes, name));
    ROPEWALK_TRY(const int64_t count, split_number(part, "split.count", 0, kMaxParts, 1));
    if (count > 1) {
      return fail(ErrorCode::kUnsupported,
                  "[gguf] {}: key split.count: expected a whole model in memory, but got the first of {} files", name, count);
    }
    parts.push_back(std::move(part));
    return GgufSet::make(std::move(parts), {});
  });
}

}  // namespace ropewalk
