// A read-only memory map of a whole file.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "ropewalk/error.h"

namespace ropewalk {

// Movable owner of a map. The bytes stay valid for its lifetime. An empty file maps to an empty span.
// If another process truncates the file meanwhile, touching the lost pages raises SIGBUS: the usual price of mmap.
class MappedFile {
 public:
  // Errors: kNotFound, kIo (also for a folder or a device), naming the path.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  const std::string& path() const noexcept { return path_; }

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

}  // namespace ropewalk
