// Files that are either whole or not there.
#pragma once

#include <string>
#include <string_view>

#include "ropewalk/error.h"

namespace ropewalk {

// Writes `contents` to a temporary file beside `path`, flushes it to disk and renames it over `path`. On any failure (no
// permission, full disk) `path` is as it was, the temporary file is gone, and the kIo error names the path and the cause.
Result<void> write_file_atomically(const std::string& path, std::string_view contents);

// Reads a whole file of at most `limit` bytes. Errors: kNotFound, kIo, kTooLarge.
Result<std::string> read_file(const std::string& path, size_t limit = size_t{1} << 32);

}  // namespace ropewalk
