// `ropewalk bench` as scripts see it: the fields of docs/command-line.md, right answers, exit codes. Tiny shapes: no speed is
// judged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "frame.h"
#include "simd/limits.h"
#include "workbench/bench/bench.h"

namespace ropewalk::app {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Runs the command line in this process; what it prints is captured.
struct Outcome {
  int code = 0;
  std::string out, err;
};
Outcome run(const std::string& arguments) {
  std::vector<std::string> words = {"ropewalk"};
  for (size_t begin = 0; begin < arguments.size();) {
    const size_t end = std::min(arguments.find(' ', begin), arguments.size());
    words.push_back(arguments.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<const char*> argv;
  for (const auto& word : words) argv.push_back(word.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = run_program(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

constexpr const char* kQuick = " --runs 1 --seconds 0.001s --threads 2 --json -";

struct Kind {
  const char* arguments;
  const char* name;
  const char* limit;
  size_t rows;
};
// A stable test name: the default prints the bytes of the pointers.
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.arguments; }

class BenchKinds : public testing::TestWithParam<Kind> {};

TEST_P(BenchKinds, RowsHaveTheFieldsOfTheContract) {
  const Kind& kind = GetParam();
  const Outcome outcome = run(std::string("bench ") + kind.arguments + kQuick);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  EXPECT_EQ(result["command"], "bench");
  EXPECT_GT(result["limits"][kind.limit].get<double>(), 0);
  ASSERT_EQ(result["rows"].size(), kind.rows);
  for (const json& row : result["rows"]) {
    EXPECT_EQ(row["name"], kind.name);
    EXPECT_TRUE(row["case"].is_object());
    EXPECT_GT(row["median_ms"].get<double>(), 0);
    EXPECT_GE(row["runs"].get<int>(), 1);
    EXPECT_TRUE(row["unit"].is_string());
    EXPECT_GT(row["value"].get<double>(), 0);
    EXPECT_GT(row["limit"].get<double>(), 0);
    EXPECT_GT(row["fraction_of_limit"].get<double>(), 0);
    EXPECT_EQ(row["checked"], true);
    EXPECT_GE(row["error"].get<double>(), 0);
    EXPECT_LT(row["error"].get<double>(), 0.02);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BenchKinds,
    testing::Values(Kind{"rope --bytes 1mb --heads 3 --head-dim 66 --rotary-dim 34", "rope", "scale_gb_per_s", 6},
                    Kind{"rope --bytes 256kb --dtype bf16,f16 --pairing interleaved", "rope", "scale_gb_per_s", 2},
                    Kind{"attention --tokens 65,130 --heads 6 --kv-heads 2 --head-dim 40", "attention", "f32_gflop_per_s", 2},
                    Kind{"attention --tokens 100 --heads 5 --kv-heads 5 --head-dim 64 --window 17 --rotate", "attention",
                         "f32_gflop_per_s", 1},
                    Kind{"attention --tokens 50 --heads 2 --kv-heads 1 --head-dim 64 --bidirectional", "attention",
                         "f32_gflop_per_s", 1},
                    Kind{"attention --tokens 70 --heads 4 --kv-heads 2 --head-dim 16 --encoding alibi,shaw:reach=3,rerope",
                         "attention", "f32_gflop_per_s", 3},
                    Kind{"matmul --shapes 300x65x33,1x7x5", "matmul", "f32_gflop_per_s", 2}),
    [](const auto& param) { return fmt::format("{}_{}", param.param.name, param.index); });

TEST(Bench, PeakHasARowForEachProductOfTheMachine) {
  const Outcome outcome = run(std::string("bench peak") + kQuick);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  ASSERT_EQ(result["rows"].size(), 1 + bf16_units().size());
  EXPECT_EQ(result["rows"][0]["name"], "f32");
  EXPECT_GT(result["limits"]["f32_gflop_per_s"].get<double>(), 0);
  for (size_t i = 0; i < bf16_units().size(); ++i) {
    EXPECT_EQ(result["rows"][i + 1]["name"], "bf16");
    EXPECT_EQ(result["rows"][i + 1]["case"]["instruction"], bf16_units()[i].instruction);
    EXPECT_EQ(result["rows"][i + 1]["checked"], true);
    EXPECT_GT(result["limits"]["bf16_gflop_per_s"].get<double>(), 0);
  }
}

TEST(Bench, StreamAndDecode) {
  const Outcome stream = run(std::string("bench stream --bytes 4mb") + kQuick);
  ASSERT_EQ(stream.code, 0) << stream.err;
  const json limits = json::parse(stream.out)["limits"];
  EXPECT_GT(limits["read_gb_per_s"].get<double>(), 0);
  EXPECT_GT(limits["scale_gb_per_s"].get<double>(), 0);
  const Outcome decode = run(std::string("bench decode --keys 129 --heads 6 --kv-heads 2 --head-dim 64 --cache bf16") + kQuick);
  ASSERT_EQ(decode.code, 0) << decode.err;
  const json row = json::parse(decode.out)["rows"][0];
  EXPECT_EQ(row["name"], "decode");
  EXPECT_EQ(row["checked"], true);
}

// The tiny random models of the engine's golden data. Their answers are checked against reference_forward.
TEST(Bench, Model) {
  const std::string golden = std::string(ROPEWALK_SOURCE_DIR) + "/src/engine/golden/";
  for (const char* model : {"llama.gguf", "qwen2", "gemma3.gguf"}) {
    const Outcome outcome = run("bench model " + golden + model + " --lengths 5,33" + kQuick);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json result = json::parse(outcome.out);
    EXPECT_EQ(result["model"]["path"], golden + model);
    ASSERT_EQ(result["rows"].size(), 4U);
    EXPECT_EQ(result["rows"][0]["name"], "prefill");
    EXPECT_EQ(result["rows"][3]["name"], "decode");
    for (const json& row : result["rows"]) {
      EXPECT_GT(row["tokens_per_second"].get<double>(), 0);
      EXPECT_EQ(row["checked"], true);
      EXPECT_LT(row["error"].get<double>(), 1e-3);
    }
  }
  EXPECT_EQ(run("bench model " + golden + "absent.gguf --lengths 5").code, 1);
  EXPECT_EQ(run("bench model " + golden + "llama.gguf --lengths 1").code, 2);
}

TEST(Bench, Bf16AnswersAreRightWithOrWithoutTheInstruction) {
  const Outcome outcome =
      run(std::string("bench attention --tokens 150 --heads 4 --kv-heads 2 --head-dim 64 --precision fast") + kQuick);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json row = json::parse(outcome.out)["rows"][0];
  EXPECT_EQ(row["case"]["compute"], "bf16");
  EXPECT_GT(row["error"].get<double>(), 1e-5);  // it did round to bf16
}

TEST(Bench, ImpossibleShapesAreErrorsOfUse) {
  for (const char* arguments :
       {"attention --tokens 64 --heads 5 --kv-heads 2", "rope --bytes 1mb --rotary-dim 300", "rope --bytes 1mb --rotary-dim 7",
        "rope --dtype f64", "matmul --shapes 3x4", "matmul --shapes 3x0x4", "matmul --shapes", "attention --tokens 0",
        "attention --head-dim 0", "stream --bytes 0", "nonsense", "stream --bytes 16 --threads 8"}) {
    const Outcome outcome = run(std::string("bench ") + arguments + " --runs 1");
    EXPECT_EQ(outcome.code, 2) << arguments << '\n' << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("--help")) << arguments;
  }
}

TEST(Bench, MeasureTakesMediansOfRatios) {
  BenchOptions options;
  options.min_runs = 4;
  options.max_runs = 4;
  options.min_seconds = 1e9;
  int calls = 0, peaks = 0;
  const Limit limit{"f32_gflop_per_s", "GFLOP/s", [&] { return static_cast<double>(++peaks); }, {}};
  BenchRow row;
  BenchReport report;
  ASSERT_TRUE(measure(
      options, limit, 1,
      [&]() -> Result<void> {
        ++calls;
        return {};
      },
      {}, row, report));
  EXPECT_EQ(calls, 5);  // one before the timed ones
  EXPECT_EQ(row.runs, 4);
  EXPECT_DOUBLE_EQ(row.limit, 3.5);  // of 2, 3, 4, 5
  EXPECT_DOUBLE_EQ(report.limits["f32_gflop_per_s"], 3.5);

  std::atomic<bool> stop{true};
  Control control;
  control.stop = &stop;
  const auto stopped = measure(
      options, limit, 1, []() -> Result<void> { return {}; }, control, row, report);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::kInterrupted);
}

TEST(Bench, Median) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

}  // namespace
}  // namespace ropewalk::app
