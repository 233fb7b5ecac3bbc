// Passkey retrieval: does the model find a number that stands far back? Perplexity alone stays flat where far tokens are
// ignored.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/control.h"
#include "ropewalk/error.h"

namespace ropewalk {

struct RetrievalRow {
  std::string setting;
  int64_t length = 0;
  double depth = 0;  // 0 = the key stands at the beginning, 1 = just before the question
  int64_t trials = 0, correct = 0;
};

struct RetrievalOptions {
  std::vector<double> depths = {0.1, 0.5, 0.9};
  int64_t trials = 4;  // a depth
  uint64_t seed = 0;
};

// A prompt of `length` tokens in all, answer included: filler text, a sentence with a key of five digits at the depth, the
// question.
struct PasskeyTrial {
  std::vector<int32_t> prompt;
  std::vector<int32_t> answer;
};
using Encode = std::function<std::vector<int32_t>(const std::string& text)>;
// Errors: kInvalidArgument when the length has no room for key and question.
Result<PasskeyTrial> make_passkey(const Encode& encode, std::span<const int32_t> filler, int64_t length, double depth,
                                  uint64_t seed, uint64_t trial);

// True when greedy continuation of the prompt gives the answer.
using Retriever = std::function<Result<bool>(const std::string& setting, const PasskeyTrial& trial, const Control& control)>;

Result<std::vector<RetrievalRow>> measure_retrieval(const Retriever& retriever, const Encode& encode,
                                                    std::span<const int32_t> filler, const std::vector<std::string>& settings,
                                                    const std::vector<int64_t>& lengths, const RetrievalOptions& options,
                                                    const Control& control);

}  // namespace ropewalk
