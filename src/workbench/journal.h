// Finished measurements on disk: one JSON object a line, appended and flushed as each is done, so that an interrupted run
// resumes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ropewalk/error.h"

namespace ropewalk {

// What makes two measurements the same. `context` holds all that the run has in common: model, precision, version.
struct JournalKey {
  std::string setting;
  uint64_t text_hash = 0;
  int64_t start = 0;
  int64_t length = 0;
  auto operator<=>(const JournalKey&) const = default;
};
struct JournalEntry {
  std::vector<double> nll;
  double seconds = 0;
};

class Journal {
 public:
  // Reads what is there (a line that is cut off or does not parse, or of another context, is passed over) and makes sure that
  // the file can be written. Errors: kIo, naming the path and the cause.
  static Result<Journal> open(const std::string& path, const std::string& context);
  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&&) = delete;
  ~Journal();

  const JournalEntry* find(const JournalKey& key) const;
  const std::map<JournalKey, JournalEntry>& entries() const { return entries_; }
  // Appends one line and flushes it to the disk. Errors: kIo (full disk); the entry is not lost to the running program.
  Result<void> add(const JournalKey& key, const JournalEntry& entry);
  int64_t skipped() const { return skipped_; }  // lines that could not be used

 private:
  Journal() = default;
  std::string path_, context_;
  int file_ = -1;
  int64_t skipped_ = 0;
  std::map<JournalKey, JournalEntry> entries_;
};

}  // namespace ropewalk
