#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "base/fail.h"
#include "base/mapped_file.h"

namespace ropewalk {

Result<void> write_file_atomically(const std::string& path, std::string_view contents) {
  // The counter keeps threads that write the same file apart; O_EXCL keeps us off what lies there already (a link, say).
  static std::atomic<uint32_t> counter{0};
  std::string temporary;
  int fd = -1;
  do {
    temporary = fmt::format("{}.{}.{}.tmp", path, ::getpid(), counter.fetch_add(1, std::memory_order_relaxed));
    fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EEXIST);
  if (fd < 0) {
    return fail(ErrorCode::kIo, "[file] {}: expected a path that can be written, but got: {}", path, std::strerror(errno));
  }
  int error = 0;
  for (size_t done = 0; done < contents.size() && error == 0;) {
    const ssize_t n = ::write(fd, contents.data() + done, contents.size() - done);
    if (n > 0) done += static_cast<size_t>(n);
    if (n == 0) error = EIO;  // never for a regular file; without this line a strange one would spin
    if (n < 0 && errno != EINTR) error = errno;
  }
  // Some file systems refuse fsync on principle (EINVAL); a failed write-back (EIO, ENOSPC) must not pass for success.
  if (error == 0 && ::fsync(fd) != 0 && errno != EINVAL && errno != EROFS) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    return fail(ErrorCode::kIo, "[file] {}: cannot write {} bytes: {}", path, contents.size(), std::strerror(error));
  }
  return {};
}

Result<std::string> read_file(const std::string& path, size_t limit) {
  ROPEWALK_TRY(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > limit) {
    return fail(ErrorCode::kTooLarge, "[file] {}: expected at most {} bytes, but got {}", path, limit, bytes.size());
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace ropewalk
