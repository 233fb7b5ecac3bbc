#include "workbench/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/atomic_file.h"
#include "base/fail.h"

namespace ropewalk {
namespace {

using nlohmann::json;

bool parse_line(std::string_view line, const std::string& context, JournalKey& key, JournalEntry& entry) {
  const json object = json::parse(line.begin(), line.end(), nullptr, false);
  if (!object.is_object()) return false;
  const auto text = [&](const char* name) { return object.contains(name) && object[name].is_string(); };
  const auto integer = [&](const char* name) { return object.contains(name) && object[name].is_number_integer(); };
  if (!text("context") || object["context"].get_ref<const std::string&>() != context) return false;
  if (!text("setting") || !integer("text") || !integer("start") || !integer("length")) return false;
  if (!object.contains("nll") || !object["nll"].is_array() || !object.contains("seconds") || !object["seconds"].is_number())
    return false;
  key = {object["setting"].get<std::string>(), object["text"].get<uint64_t>(), object["start"].get<int64_t>(),
         object["length"].get<int64_t>()};
  entry.seconds = object["seconds"].get<double>();
  entry.nll.clear();
  entry.nll.reserve(object["nll"].size());
  for (const json& value : object["nll"]) {
    if (!value.is_number() || !std::isfinite(value.get<double>())) return false;
    entry.nll.push_back(value.get<double>());
  }
  return static_cast<int64_t>(entry.nll.size()) == key.length - 1;
}

}  // namespace

Result<Journal> Journal::open(const std::string& path, const std::string& context) {
  Journal journal;
  journal.path_ = path;
  journal.context_ = context;
  std::string contents;
  if (auto read = read_file(path); read) {
    contents = *std::move(read);
  } else if (read.error().code() != ErrorCode::kNotFound) {
    return read.error();
  }
  for (size_t at = 0; at < contents.size();) {
    const size_t end = std::min(contents.find('\n', at), contents.size());
    const std::string_view line(contents.data() + at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    JournalKey key;
    JournalEntry entry;
    if (parse_line(line, context, key, entry)) {
      journal.entries_.insert_or_assign(std::move(key), std::move(entry));
    } else {
      ++journal.skipped_;
    }
  }
  journal.file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (journal.file_ < 0)
    return fail(ErrorCode::kIo, "[journal] {}: expected a file that can be written, but got: {}", path, std::strerror(errno));
  // A line that was cut off stays as it is, on a line of its own.
  if (!contents.empty() && contents.back() != '\n' && ::write(journal.file_, "\n", 1) != 1) {
    return fail(ErrorCode::kIo, "[journal] {}: expected to append, but got: {}", path, std::strerror(errno));
  }
  return journal;
}

Journal::Journal(Journal&& other) noexcept
    : path_(std::move(other.path_)),
      context_(std::move(other.context_)),
      file_(std::exchange(other.file_, -1)),
      skipped_(other.skipped_),
      entries_(std::move(other.entries_)) {}

Journal::~Journal() {
  if (file_ >= 0) ::close(file_);
}

const JournalEntry* Journal::find(const JournalKey& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

Result<void> Journal::add(const JournalKey& key, const JournalEntry& entry) {
  const json object = {{"context", context_},  {"setting", key.setting},   {"text", key.text_hash}, {"start", key.start},
                       {"length", key.length}, {"seconds", entry.seconds}, {"nll", entry.nll}};
  std::string line = object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  entries_.insert_or_assign(key, entry);
  for (size_t done = 0; done < line.size();) {
    const ssize_t wrote = ::write(file_, line.data() + done, line.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0)
      return fail(ErrorCode::kIo, "[journal] {}: expected to append {} bytes, but got: {}", path_, line.size(),
                  std::strerror(errno));
    done += static_cast<size_t>(wrote);
  }
  if (::fsync(file_) != 0 && errno != EINVAL && errno != EROFS) {
    return fail(ErrorCode::kIo, "[journal] {}: expected the line on disk, but got: {}", path_, std::strerror(errno));
  }
  return {};
}

}  // namespace ropewalk
