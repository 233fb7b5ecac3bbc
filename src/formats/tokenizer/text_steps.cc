#include "formats/tokenizer/text_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/tokenizer/nfc.h"
#include "formats/tokenizer/unicode.h"

namespace ropewalk {
namespace {

struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool match = false;
};

// The matches in `text` and what lies between them, in order. Where a pattern gives up, the rest is one word.
template <class Emit>
void for_each_span(const Regex& pattern, std::string_view text, Regex::Scratch& scratch, Emit&& emit) {
  size_t from = 0;
  size_t done = 0;
  while (from <= text.size()) {
    size_t begin = 0;
    size_t end = 0;
    if (pattern.find(text, from, scratch, begin, end) != Regex::Found::kMatch) break;
    if (begin > done) emit(Span{done, begin, false});
    if (end > begin) emit(Span{begin, end, true});
    done = end;
    from = end;
    if (end == begin) {  // an empty match cuts here; the search goes on behind the next character
      if (from >= text.size()) break;
      from += utf8_at(text, from).bytes;
    }
  }
  if (done < text.size()) emit(Span{done, text.size(), false});
}

void push_spans(const std::vector<Span>& spans, SplitBehaviour behaviour, std::string_view text,
                std::vector<std::string_view>& out) {
  const auto push = [&](size_t begin, size_t end) { out.push_back(text.substr(begin, end - begin)); };
  const size_t n = spans.size();
  for (size_t i = 0; i < n;) {
    const Span& s = spans[i];
    size_t last = i;
    switch (behaviour) {
      case SplitBehaviour::kIsolated: break;
      case SplitBehaviour::kRemoved:
        if (s.match) {
          ++i;
          continue;
        }
        break;
      case SplitBehaviour::kMergedWithPrevious:  // a match joins what stands before it, unless that is a match
        if (!s.match && i + 1 < n && spans[i + 1].match) last = i + 1;
        break;
      case SplitBehaviour::kMergedWithNext:
        if (s.match && i + 1 < n && !spans[i + 1].match) last = i + 1;
        break;
      case SplitBehaviour::kContiguous:
        while (last + 1 < n && spans[last + 1].match == s.match) ++last;
        break;
    }
    push(s.begin, spans[last].end);
    i = last + 1;
  }
}

void apply(const Split& step, std::string_view word, bool, Words& words) {
  const bool plain = step.behaviour == SplitBehaviour::kIsolated;
  std::vector<Span> spans;
  for_each_span(step.pattern, word, words.scratch, [&](Span s) {
    if (plain) {
      words.next.push_back(word.substr(s.begin, s.end - s.begin));
    } else {
      s.match = s.match != step.invert;
      spans.push_back(s);
    }
  });
  if (!plain) push_spans(spans, step.behaviour, word, words.next);
}

void apply(const AddSpace&, std::string_view word, bool, Words& words) {
  if (!word.starts_with(' ')) word = words.made.emplace_back(fmt::format(" {}", word));
  words.next.push_back(word);
}

void apply(const Metaspace& step, std::string_view word, bool at_start, Words& words) {
  std::string text;
  for (const char c : word) {
    if (c == ' ') {
      text += step.replacement;
    } else {
      text += c;
    }
  }
  const bool wanted = step.prepend == PrependWhen::kAlways || (step.prepend == PrependWhen::kFirst && at_start);
  if (wanted && !text.starts_with(step.replacement)) text.insert(0, step.replacement);
  const std::string_view whole = words.made.emplace_back(std::move(text));
  if (!step.split) {
    words.next.push_back(whole);
    return;
  }
  size_t begin = 0;
  while (begin < whole.size()) {
    const size_t next =
        whole.find(step.replacement, begin + (whole.substr(begin).starts_with(step.replacement) ? step.replacement.size() : 0));
    const size_t end = std::min(next, whole.size());
    words.next.push_back(whole.substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace

std::string normalize(const std::vector<NormalizeStep>& steps, std::string_view text, Regex::Scratch& scratch) {
  std::string out(text);
  for (const NormalizeStep& step : steps) {
    if (const auto* prepend = std::get_if<Prepend>(&step)) {
      if (!out.empty()) out.insert(0, prepend->text);
    } else if (const auto* replace = std::get_if<Replace>(&step)) {
      std::string replaced;
      replaced.reserve(out.size());
      for_each_span(replace->pattern, out, scratch, [&](Span s) {
        if (s.match) {
          replaced += replace->content;
        } else {
          replaced.append(out, s.begin, s.end - s.begin);
        }
      });
      out = std::move(replaced);
    } else {
      out = compose_nfc(out);
    }
  }
  return out;
}

void split_words(const std::vector<SplitStep>& steps, std::string_view text, bool at_start, Words& words) {
  words.list.clear();
  if (!text.empty()) words.list.push_back(text);
  for (const SplitStep& step : steps) {
    words.next.clear();
    bool first = at_start;
    for (const std::string_view word : words.list) {
      std::visit([&](const auto& s) { apply(s, word, first, words); }, step);
      first = false;
    }
    std::swap(words.list, words.next);
  }
}

}  // namespace ropewalk
