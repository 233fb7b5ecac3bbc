// Measurements: the loss of every token of a window under a setting, kept, shared where that is exact, and journalled.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/control.h"
#include "ropewalk/error.h"
#include "workbench/corpus.h"
#include "workbench/journal.h"

namespace ropewalk {

// What measures. The engine stands behind it in the program (model_scorer.h), a formula in the tests.
struct Scorer {
  // nll of tokens[i+1] given tokens[0..i], i = 0 .. n-2, in nats. The setting is applied for a sequence of this length.
  std::function<Result<std::vector<double>>(const std::string& setting, std::span<const int32_t> tokens,
                                            const Control& control)>
      score;
  // True when a window of `shorter` tokens scores as the beginning of one of `longer` does: not so where a rule takes the
  // length of the sequence (dynamic:S:horizon, a long list past L0).
  std::function<bool(const std::string& setting, int64_t shorter, int64_t longer)> prefix_equal;
  std::function<double(int64_t length)> flops;    // of one window
  std::function<int64_t(int64_t length)> memory;  // peak bytes of one window
};

struct Measured {
  std::vector<double> nll;  // [n-1]
  double seconds = 0;       // of the pass that gave it
  int64_t pass_length = 0;  // longer than the window where a longer pass was shared
};

class Measurements {
 public:
  // `journal` may be null: nothing is kept on disk. What it holds already counts as measured.
  Measurements(const Scorer& scorer, const Corpus& corpus, Journal* journal)
      : scorer_(scorer), corpus_(corpus), journal_(journal) {}

  // From memory, the journal, the beginning of a longer pass at the same place where that is exact, or a new pass.
  Result<Measured> get(const std::string& setting, const Window& window, const Control& control);
  // The scores [n-1] without a new pass; empty when one would be needed. Valid as long as this object.
  std::span<const double> find(const std::string& setting, const Window& window) const;
  bool known(const std::string& setting, const Window& window) const { return locate(setting, window) != nullptr; }

  const Corpus& corpus() const { return corpus_; }
  const Scorer& scorer() const { return scorer_; }
  int64_t passes() const { return passes_; }    // new passes so far
  int64_t resumed() const { return resumed_; }  // passes taken from the journal

 private:
  struct Pass {
    std::vector<double> nll;
    double seconds = 0;
  };
  using Key = std::pair<std::string, Window>;
  const std::pair<const Key, Pass>* locate(const std::string& setting, const Window& window) const;

  const Scorer& scorer_;
  const Corpus& corpus_;
  Journal* journal_;
  mutable std::map<Key, Pass> passes_by_key_;
  int64_t passes_ = 0;
  mutable int64_t resumed_ = 0;
};

}  // namespace ropewalk
