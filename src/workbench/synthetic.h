// For tests only: a scorer that is a formula. The loss of a token depends on the token, its position and the setting, as of a
// model that was trained to `trained` tokens: past them "none" loses `cliff` nats, "linear:.." costs 1 nat everywhere, other
// settings cost a little everywhere and little past the trained length.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "workbench/measure.h"

namespace ropewalk::synthetic {

inline double penalty(const std::string& setting, int64_t position, int64_t trained, double cliff) {
  const bool far = position >= trained;
  if (setting == "none") return far ? cliff : 0;
  if (setting.starts_with("linear")) return 1.0;
  if (setting.starts_with("yarn")) return far ? 0.10 : 0.06;
  if (setting.starts_with("dynamic") && setting.find("horizon") == std::string::npos) return far ? 0.2 : 0;
  return far ? 0.02 : 0.01;
}

inline double loss(const std::string& setting, int32_t token, int64_t position, int64_t trained, double cliff) {
  Random text(11, static_cast<uint64_t>(position * 70001 + token));
  Random own(fingerprint(setting), static_cast<uint64_t>(position * 70001 + token));
  return 4 + text.normal() + 0.05 * own.normal() + penalty(setting, position, trained, cliff);
}

struct Calls {
  int64_t passes = 0;
  int64_t stop_after = -1;  // answers kInterrupted from then on
};

inline Scorer scorer(Calls& calls, int64_t trained, double cliff = 1.0) {
  Scorer out;
  out.score = [&calls, trained, cliff](const std::string& setting, std::span<const int32_t> tokens,
                                       const Control& control) -> Result<std::vector<double>> {
    if (control.stopped() || (calls.stop_after >= 0 && calls.passes >= calls.stop_after)) {
      return Error(ErrorCode::kInterrupted, "[synthetic] stopped");
    }
    ++calls.passes;
    std::vector<double> nll;
    for (size_t i = 0; i + 1 < tokens.size(); ++i)
      nll.push_back(loss(setting, tokens[i + 1], static_cast<int64_t>(i), trained, cliff));
    return nll;
  };
  out.prefix_equal = [](const std::string& setting, int64_t, int64_t) { return setting.find("horizon") == std::string::npos; };
  out.flops = [](int64_t n) { return 1e6 * static_cast<double>(n) + 10.0 * static_cast<double>(n) * static_cast<double>(n); };
  out.memory = [](int64_t n) { return 1000 * n; };
  return out;
}

inline Corpus corpus(std::vector<int64_t> sizes, bool bos = false) {
  Corpus out;
  Random random(5);
  for (const int64_t size : sizes) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < size; ++i) ids.push_back(static_cast<int32_t>(random.below(1000)));
    out.texts.push_back(make_text("text" + std::to_string(out.texts.size()), std::move(ids)));
  }
  if (bos) out.bos = 1000;
  return out;
}

}  // namespace ropewalk::synthetic
