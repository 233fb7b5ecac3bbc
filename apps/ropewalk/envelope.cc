// The JSON that scripts read.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/fail.h"
#include "base/machine.h"
#include "base/parallel.h"
#include "command.h"
#include "frame.h"
#include "ropewalk/version.h"
#include "simd/targets.h"

namespace ropewalk::app {
namespace {

using nlohmann::json;

bool is_flat(const json& value) {
  for (const auto& item : value) {
    if (item.is_structured()) return false;
  }
  return true;
}

std::string scalar_text(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

// Like dump(2), but an array of scalars stays on one line: curves of a thousand numbers remain readable.
void append(const json& value, int depth, std::string& out) {
  if (!value.is_structured() || value.empty()) {
    out += scalar_text(value);
    return;
  }
  if (value.is_array() && is_flat(value)) {
    out += '[';
    for (size_t i = 0; i < value.size(); ++i) out += (i == 0 ? "" : ", ") + scalar_text(value[i]);
    out += ']';
    return;
  }
  const std::string indent(static_cast<size_t>(2 * depth + 2), ' ');
  out += value.is_array() ? '[' : '{';
  bool first = true;
  for (const auto& item : value.items()) {
    out += (first ? "\n" : ",\n") + indent;
    first = false;
    if (value.is_object()) out += scalar_text(item.key()) + ": ";
    append(item.value(), depth + 1, out);
  }
  out += '\n' + std::string(static_cast<size_t>(2 * depth), ' ');
  out += value.is_array() ? ']' : '}';
}

// Pipes, terminals and devices cannot be replaced by a rename.
Result<void> write_stream(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  int error = fd < 0 ? errno : 0;
  for (size_t done = 0; error == 0 && done < text.size();) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n > 0) done += static_cast<size_t>(n);
    if (n < 0 && errno != EINTR) error = errno;
  }
  if (fd >= 0 && ::close(fd) != 0 && error == 0) error = errno;
  if (error != 0) return fail(ErrorCode::kIo, "[--json] {}: cannot write: {}", path, std::strerror(error));
  return {};
}

bool is_stream(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

}  // namespace

json machine_json(int threads) {
  return {{"cpu", cpu_name()},          {"cores", available_cores()},    {"threads", threads}, {"simd", simd_target_in_use()},
          {"bf16_dot", has_bf16_dot()}, {"memory_bytes", memory_total()}};
}

std::string envelope_text(const Common& common, const std::string& command, const json& model, const json& body) {
  // Written in this order: what it is first, the results last.
  nlohmann::ordered_json order = {{"ropewalk", ROPEWALK_VERSION}, {"schema", 1}, {"command", command}};
  std::string out = "{";
  for (const auto& item : order.items()) out += fmt::format("\n  \"{}\": {},", item.key(), item.value().dump());
  out += "\n  \"model\": ";
  append(model, 1, out);
  out += ",\n  \"machine\": ";
  append(machine_json(common.threads), 1, out);
  for (const auto& item : body.items()) {
    out += ",\n  " + scalar_text(item.key()) + ": ";
    append(item.value(), 1, out);
  }
  return out + "\n}\n";
}

Result<void> write_json(const Common& common, const std::string& command, const json& model, const json& body) {
  if (common.json.empty()) return {};
  const std::string text = envelope_text(common, command, model, body);
  if (common.json == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};  // finish_output() reports what became of it
  }
  if (is_stream(common.json)) return write_stream(common.json, text);
  // The file behind a symbolic link is replaced, not the link.
  std::error_code error;
  const auto resolved = std::filesystem::weakly_canonical(common.json, error);
  return write_file_atomically(error ? common.json : resolved.string(), text);
}

}  // namespace ropewalk::app
