#include "workbench/retrieval.h"

#include <algorithm>

#include "base/fail.h"
#include "base/random.h"
#include "workbench/plan.h"
#include "workbench/statistics.h"

namespace ropewalk {

Result<PasskeyTrial> make_passkey(const Encode& encode, std::span<const int32_t> filler, int64_t length, double depth,
                                  uint64_t seed, uint64_t trial) {
  Random random(seed, fingerprint(fmt::format("passkey {}", trial)));
  const std::string key = std::to_string(10000 + random.below(90000));
  const std::vector<int32_t> note = encode("\n\nThe pass key is " + key + ". Remember it. " + key + " is the pass key.\n\n");
  const std::vector<int32_t> question = encode("\n\nWhat is the pass key? The pass key is");
  PasskeyTrial out;
  out.answer = encode(" " + key);
  const auto taken = static_cast<int64_t>(note.size() + question.size() + out.answer.size());
  const int64_t fill = length - taken;
  if (fill < 1 || filler.empty()) {
    return fail(ErrorCode::kInvalidArgument, "[retrieval] expected a length of more than {} tokens and a text, but got {}",
                taken, length);
  }
  // Each trial starts elsewhere in the filler, which repeats where it is short.
  const auto n = static_cast<uint64_t>(filler.size());
  const uint64_t start = random.below(n);
  const auto before = static_cast<int64_t>(std::clamp(depth, 0.0, 1.0) * static_cast<double>(fill));
  for (int64_t i = 0; i <= fill; ++i) {
    if (i == before) out.prompt.insert(out.prompt.end(), note.begin(), note.end());
    if (i < fill) out.prompt.push_back(filler[static_cast<size_t>((start + static_cast<uint64_t>(i)) % n)]);
  }
  out.prompt.insert(out.prompt.end(), question.begin(), question.end());
  return out;
}

Result<std::vector<RetrievalRow>> measure_retrieval(const Retriever& retriever, const Encode& encode,
                                                    std::span<const int32_t> filler, const std::vector<std::string>& settings,
                                                    const std::vector<int64_t>& lengths, const RetrievalOptions& options,
                                                    const Control& control) {
  std::vector<RetrievalRow> rows;
  double total = 0, done = 0;
  for (const int64_t length : lengths) {
    total += static_cast<double>(length) * static_cast<double>(settings.size() * options.depths.size()) *
             static_cast<double>(options.trials);
  }
  for (const int64_t length : lengths) {
    for (const std::string& setting : settings) {
      for (size_t d = 0; d < options.depths.size(); ++d) {
        RetrievalRow row{setting, length, options.depths[d], 0, 0};
        for (int64_t t = 0; t < options.trials; ++t) {
          // The same trials for every setting.
          const uint64_t id = static_cast<uint64_t>(t) + 1000 * d;
          ROPEWALK_TRY(const PasskeyTrial trial, make_passkey(encode, filler, length, options.depths[d], options.seed, id));
          ROPEWALK_TRY(const bool found, retriever(setting, trial, part_of(control, done, static_cast<double>(length), total)));
          done += static_cast<double>(length);
          ++row.trials;
          row.correct += found;
          if (control.progress) control.progress(done, total);
        }
        rows.push_back(row);
      }
    }
  }
  return rows;
}

}  // namespace ropewalk
