#include "workbench/corpus.h"

#include <algorithm>

#include "base/fail.h"
#include "workbench/statistics.h"

namespace ropewalk {

Text make_text(std::string name, std::vector<int32_t> ids) {
  const std::string_view bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t));
  const uint64_t hash = fingerprint(bytes);
  return {std::move(name), std::move(ids), hash};
}

std::vector<int32_t> window_tokens(const Corpus& corpus, const Window& window) {
  std::vector<int32_t> out;
  out.reserve(static_cast<size_t>(window.length));
  if (corpus.bos) out.push_back(*corpus.bos);
  const auto& ids = corpus.texts[static_cast<size_t>(window.text)].ids;
  const int64_t take = window.length - (corpus.bos ? 1 : 0);
  const int64_t end = std::min<int64_t>(window.start + take, static_cast<int64_t>(ids.size()));
  if (window.start < end) out.insert(out.end(), ids.begin() + window.start, ids.begin() + end);
  return out;
}

Result<std::vector<WindowSet>> make_windows(const Corpus& corpus, const std::vector<int64_t>& lengths, int64_t windows,
                                            std::vector<std::string>& notes) {
  if (corpus.texts.empty()) return fail(ErrorCode::kNotFound, "[text] expected at least one text, but got none");
  const int64_t extra = corpus.bos ? 1 : 0;
  int64_t longest = 0;
  for (const Text& text : corpus.texts) longest = std::max(longest, static_cast<int64_t>(text.ids.size()) + extra);
  std::vector<WindowSet> sets;
  for (const int64_t asked : lengths) {
    if (asked < 2) return fail(ErrorCode::kInvalidArgument, "[lengths] expected a length of 2 or more, but got {}", asked);
    if (longest < 2) {
      return fail(ErrorCode::kInvalidArgument, "[text] {}: expected at least 2 tokens, which one score needs, but got {}",
                  corpus.texts.front().name, longest);
    }
    WindowSet set{asked, std::min(asked, longest), {}};
    if (set.length < asked) {
      notes.push_back(
          fmt::format("the longest text has {} tokens: length {} is measured at {} instead", longest, asked, set.length));
    }
    for (size_t t = 0; t < corpus.texts.size(); ++t) {
      const int64_t size = static_cast<int64_t>(corpus.texts[t].ids.size()) + extra;
      const int64_t fit = size < set.length ? 0 : 1 + (size - set.length) / set.length;
      const int64_t count = windows > 0 ? std::min(windows, fit) : fit;
      if (fit == 0) {
        notes.push_back(fmt::format("{} has {} tokens and is left out at length {}", corpus.texts[t].name, size, set.length));
      } else if (count < windows) {
        notes.push_back(
            fmt::format("{} has room for {} of {} windows of length {}", corpus.texts[t].name, count, windows, set.length));
      }
      for (int64_t w = 0; w < count; ++w) set.windows.push_back({static_cast<int>(t), w * set.length, set.length});
    }
    const auto same = [&](const WindowSet& other) { return other.length == set.length; };
    if (std::none_of(sets.begin(), sets.end(), same)) sets.push_back(std::move(set));
  }
  std::sort(sets.begin(), sets.end(), [](const WindowSet& a, const WindowSet& b) { return a.length < b.length; });
  return sets;
}

}  // namespace ropewalk
