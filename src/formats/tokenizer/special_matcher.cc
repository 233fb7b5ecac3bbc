#include "formats/tokenizer/special_matcher.h"

#include <algorithm>

namespace ropewalk {

SpecialMatcher::SpecialMatcher(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::erase_if(entries_, [](const Entry& e) { return e.text.empty(); });
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  std::vector<Entry> unique;
  unique.reserve(entries_.size());
  for (const Entry& e : entries_) {
    if (!unique.empty() && unique.back().text == e.text) {
      unique.back() = e;
    } else {
      unique.push_back(e);
    }
  }
  entries_ = std::move(unique);
  for (const Entry& e : entries_) ++first_[static_cast<uint8_t>(e.text[0]) + size_t{1}];
  for (size_t b = 0; b < 256; ++b) first_[b + 1] += first_[b];
}

SpecialMatcher::Match SpecialMatcher::find(std::string_view text, size_t from) const noexcept {
  if (entries_.empty()) return {};
  for (size_t at = from; at < text.size(); ++at) {
    const uint8_t byte = static_cast<uint8_t>(text[at]);
    uint32_t low = first_[byte];
    uint32_t high = first_[byte + size_t{1}];
    if (low == high) continue;
    // Entries that agree with the text so far are a range of the sorted list. It narrows with each byte, and the entry that
    // ends here, if there is one, is the range's first.
    Match longest;
    for (size_t depth = 1; low < high; ++depth) {
      if (entries_[low].text.size() == depth) {
        longest = {at, at + depth, entries_[low].id};
        ++low;
      }
      if (at + depth >= text.size()) break;
      const uint8_t next = static_cast<uint8_t>(text[at + depth]);
      const auto key = [depth](const Entry& e) { return static_cast<uint8_t>(e.text[depth]); };
      const auto begin = entries_.begin() + low;
      const auto end = entries_.begin() + high;
      const auto lower = std::partition_point(begin, end, [&](const Entry& e) { return key(e) < next; });
      const auto upper = std::partition_point(lower, end, [&](const Entry& e) { return key(e) == next; });
      low = static_cast<uint32_t>(lower - entries_.begin());
      high = static_cast<uint32_t>(upper - entries_.begin());
    }
    if (longest) return longest;
  }
  return {};
}

}  // namespace ropewalk
