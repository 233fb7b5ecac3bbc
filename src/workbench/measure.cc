#include "workbench/measure.h"

#include <chrono>
#include <cmath>

#include "base/fail.h"

namespace ropewalk {

const std::pair<const Measurements::Key, Measurements::Pass>* Measurements::locate(const std::string& setting,
                                                                                   const Window& window) const {
  // Keys of one setting, text and start lie together, by length; the shortest pass that will do.
  for (auto it = passes_by_key_.lower_bound({setting, window}); it != passes_by_key_.end(); ++it) {
    const Window& pass = it->first.second;
    if (it->first.first != setting || pass.text != window.text || pass.start != window.start) break;
    if (pass.length == window.length || scorer_.prefix_equal(setting, window.length, pass.length)) return &*it;
  }
  if (journal_ == nullptr) return nullptr;
  const uint64_t hash = corpus_.texts[static_cast<size_t>(window.text)].hash;
  const auto& entries = journal_->entries();
  for (auto it = entries.lower_bound({setting, hash, window.start, window.length}); it != entries.end(); ++it) {
    const JournalKey& key = it->first;
    if (key.setting != setting || key.text_hash != hash || key.start != window.start) break;
    if (key.length == window.length || scorer_.prefix_equal(setting, window.length, key.length)) {
      ++resumed_;
      const Window pass{window.text, window.start, key.length};
      return &*passes_by_key_.insert_or_assign({setting, pass}, Pass{it->second.nll, it->second.seconds}).first;
    }
  }
  return nullptr;
}

std::span<const double> Measurements::find(const std::string& setting, const Window& window) const {
  const auto* pass = locate(setting, window);
  if (pass == nullptr) return {};
  return std::span(pass->second.nll).first(static_cast<size_t>(window.length - 1));
}

Result<Measured> Measurements::get(const std::string& setting, const Window& window, const Control& control) {
  const auto* pass = locate(setting, window);
  if (pass == nullptr) {
    const std::vector<int32_t> tokens = window_tokens(corpus_, window);
    const auto before = std::chrono::steady_clock::now();
    ROPEWALK_TRY(std::vector<double> nll, scorer_.score(setting, tokens, control));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
    if (static_cast<int64_t>(nll.size()) != window.length - 1) {
      return fail(ErrorCode::kCorrupt, "[measure] {}: expected {} scores, but got {}", setting, window.length - 1, nll.size());
    }
    for (size_t i = 0; i < nll.size(); ++i) {
      if (!std::isfinite(nll[i])) {
        return fail(ErrorCode::kCorrupt,
                    "[measure] {}: expected a finite loss at position {} of {}, but got {}; are there NaNs in the weights?",
                    setting, i, corpus_.texts[static_cast<size_t>(window.text)].name, nll[i]);
      }
    }
    ++passes_;
    pass = &*passes_by_key_.insert_or_assign({setting, window}, Pass{std::move(nll), took.count()}).first;
    if (journal_ != nullptr) {
      const JournalKey key{setting, corpus_.texts[static_cast<size_t>(window.text)].hash, window.start, window.length};
      ROPEWALK_CHECK_OK(journal_->add(key, {pass->second.nll, pass->second.seconds}));
    }
  }
  Measured out;
  out.nll.assign(pass->second.nll.begin(), pass->second.nll.begin() + (window.length - 1));
  out.seconds = pass->second.seconds;
  out.pass_length = pass->first.second.length;
  return out;
}

}  // namespace ropewalk
