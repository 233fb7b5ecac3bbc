#include "workbench/eval.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "workbench/synthetic.h"

namespace ropewalk {
namespace {

using synthetic::Calls;

TEST(Buckets, HaveTheEdgesOfTheContract) {
  EXPECT_EQ(buckets(16384), (std::vector<Bucket>{{0, 1024}, {1024, 2048}, {2048, 4096}, {4096, 8192}, {8192, 16384}}));
  EXPECT_EQ(buckets(5000), (std::vector<Bucket>{{0, 1024}, {1024, 2048}, {2048, 4096}, {4096, 5000}}));
  EXPECT_EQ(buckets(2), (std::vector<Bucket>{{0, 2}}));
  // 1025 tokens have 1024 scores, all of them in the first range; one more opens the second.
  EXPECT_EQ(buckets(1025), (std::vector<Bucket>{{0, 1024}}));
  EXPECT_EQ(buckets(1026), (std::vector<Bucket>{{0, 1024}, {1024, 1026}}));
  EXPECT_EQ(buckets(1 << 20).size(), 11u);
  EXPECT_TRUE(buckets(1).empty());
}

TEST(Windows, FollowEachOtherAndMakeRoomForTheBos) {
  std::vector<std::string> notes;
  Corpus plain = synthetic::corpus({100});
  auto sets = make_windows(plain, {30, 10}, 2, notes).value();
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].length, 10);
  EXPECT_EQ(sets[1].windows, (std::vector<Window>{{0, 0, 30}, {0, 30, 30}}));
  EXPECT_TRUE(notes.empty());
  const auto tokens = window_tokens(plain, {0, 30, 30});
  EXPECT_EQ(tokens, std::vector<int32_t>(plain.texts[0].ids.begin() + 30, plain.texts[0].ids.begin() + 60));

  const Corpus with_bos = synthetic::corpus({100}, true);
  const auto first = window_tokens(with_bos, {0, 30, 30});
  ASSERT_EQ(first.size(), 30u);
  EXPECT_EQ(first[0], 1000);
  EXPECT_EQ(first[1], with_bos.texts[0].ids[30]);
  EXPECT_EQ(first[29], with_bos.texts[0].ids[58]);
}

TEST(Windows, AShortTextGivesASmallerRunThatSaysSo) {
  std::vector<std::string> notes;
  auto sets = make_windows(synthetic::corpus({40, 90}), {64, 200, 300}, 1, notes).value();
  ASSERT_EQ(sets.size(), 2u);                                     // 200 and 300 are both 90
  EXPECT_EQ(sets[0].windows, (std::vector<Window>{{1, 0, 64}}));  // the text of 40 tokens has no window of 64
  EXPECT_EQ(sets[1].length, 90);
  EXPECT_NE(notes.front().find("40"), std::string::npos);
  EXPECT_GE(notes.size(), 3u);

  notes.clear();
  EXPECT_EQ(make_windows(synthetic::corpus({1}), {64}, 1, notes).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(make_windows(synthetic::corpus({0}), {64}, 1, notes).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(make_windows(synthetic::corpus({1}, true), {64}, 1, notes));  // the BOS predicts the one token
  EXPECT_EQ(make_windows(synthetic::corpus({50}), {1}, 1, notes).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(make_windows({}, {64}, 1, notes).error().code(), ErrorCode::kNotFound);
}

// The rows against sums written out naively, from the formula.
TEST(Eval, RowsEqualNaiveSums) {
  for (const bool bos : {false, true}) {
    Calls calls;
    const Scorer scorer = synthetic::scorer(calls, 2000);
    const Corpus corpus = synthetic::corpus({9001, 7000}, bos);
    Measurements measurements(scorer, corpus, nullptr);
    EvalRequest request;
    request.settings = {"none", "ntk:2"};
    request.lengths = {3000, 1000};
    request.windows = 2;
    auto plan = plan_eval(measurements, request).value();
    auto result = run_eval(measurements, request, plan, {}).value();
    ASSERT_TRUE(result.complete);
    ASSERT_EQ(result.settings.size(), 4u);
    for (const SettingRow& row : result.settings) {
      EXPECT_EQ(row.windows, 4);
      EXPECT_EQ(row.tokens, 4 * (row.length - 1));
      for (const BucketRow& bucket : row.by_position) {
        double sum = 0;
        int64_t count = 0;
        for (int t = 0; t < 2; ++t) {
          for (int64_t w = 0; w < 2; ++w) {
            const auto tokens = window_tokens(corpus, {t, w * row.length, row.length});
            for (int64_t p = bucket.bucket.from; p < std::min(bucket.bucket.to, row.length - 1); ++p, ++count) {
              sum += synthetic::loss(row.setting, tokens[p + 1], p, 2000, 1.0);
            }
          }
        }
        EXPECT_EQ(bucket.nll.count, count);
        EXPECT_NEAR(bucket.nll.mean, sum / static_cast<double>(count), 1e-12 * static_cast<double>(count));
        EXPECT_LT(bucket.nll.low, bucket.nll.mean);
        EXPECT_GT(bucket.nll.high, bucket.nll.mean);
      }
    }
    for (const PairRow& pair : result.paired) {
      EXPECT_EQ(pair.a, "none");
      EXPECT_EQ(pair.b, "ntk:2");
      if (pair.bucket.from >= 2048) {
        EXPECT_EQ(pair.verdict, Verdict::kBetter);  // true difference -0.98 for all but 1 score
        EXPECT_NEAR(pair.delta.mean, -0.98, 0.02);
      }
      if (pair.bucket.to <= 1024) {
        EXPECT_EQ(pair.verdict, Verdict::kWorse);  // true difference +0.01, spread 0.07, 2000 scores and more
      }
    }
    // Overall and each range; at length 1000 they are the same.
    EXPECT_EQ(result.paired.size(), (1 + 3) + 1u);
  }
}

TEST(Eval, AShorterLengthComesFromTheLongerPassWhereThatIsExact) {
  Calls calls;
  const Scorer scorer = synthetic::scorer(calls, 2000);
  const Corpus corpus = synthetic::corpus({9000});
  Measurements measurements(scorer, corpus, nullptr);
  EvalRequest request;
  request.settings = {"none", "dynamic:2:horizon=x"};
  request.lengths = {1000, 2000, 4000};
  auto plan = plan_eval(measurements, request).value();
  EXPECT_EQ(plan.plan.tasks.size(), 1u + 3u);  // a horizon follows the length, so nothing is shared
  EXPECT_EQ(plan.plan.shared, 2);
  EXPECT_EQ(plan.plan.memory, 4000000);
  int rows = 0;
  auto result = run_eval(measurements, request, plan, {}, [&](const SettingRow&) { ++rows; }).value();
  EXPECT_EQ(calls.passes, 4);
  EXPECT_EQ(rows, 6);
  EXPECT_EQ(result.settings[0].pass_length, 4000);
  EXPECT_EQ(result.settings[3].pass_length, 1000);
}

TEST(Eval, ResultsDoNotDependOnThreads) {
  std::vector<double> seen;
  for (const int threads : {1, 2, 3}) {
    Calls calls;
    const Scorer scorer = synthetic::scorer(calls, 1000);
    const Corpus corpus = synthetic::corpus({5000});
    Measurements measurements(scorer, corpus, nullptr);
    EvalRequest request;
    request.settings = {"none", "ntk:2", "yarn:2"};
    request.lengths = {3000};
    request.summary.threads.count = threads;
    auto plan = plan_eval(measurements, request).value();
    auto result = run_eval(measurements, request, plan, {}).value();
    std::vector<double> now;
    for (const PairRow& row : result.paired) now.insert(now.end(), {row.delta.mean, row.delta.low, row.delta.high});
    EXPECT_EQ(result.paired.size(), 3 * 4u);
    if (seen.empty()) seen = now;
    EXPECT_EQ(seen, now);
  }
}

TEST(Eval, StoppingKeepsWhatIsFinished) {
  Calls calls;
  calls.stop_after = 2;
  const Scorer scorer = synthetic::scorer(calls, 1000);
  const Corpus corpus = synthetic::corpus({5000});
  Measurements measurements(scorer, corpus, nullptr);
  EvalRequest request;
  request.settings = {"none", "ntk:2", "yarn:2"};
  request.lengths = {3000};
  auto plan = plan_eval(measurements, request).value();
  auto result = run_eval(measurements, request, plan, {}).value();
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.settings.size(), 2u);
}

TEST(Eval, LossesThatAreNotNumbersAreAnError) {
  Scorer scorer;
  Calls calls;
  scorer = synthetic::scorer(calls, 1000);
  scorer.score = [](const std::string&, std::span<const int32_t> tokens, const Control&) -> Result<std::vector<double>> {
    return std::vector<double>(tokens.size() - 1, std::nan(""));
  };
  const Corpus corpus = synthetic::corpus({100});
  Measurements measurements(scorer, corpus, nullptr);
  const auto result = measurements.get("none", {0, 0, 50}, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kCorrupt);
  EXPECT_NE(result.error().message().find("position 0"), std::string::npos);
}

TEST(Plan, RefusesWhatMemoryCannotHold) {
  Plan plan;
  plan.memory = 8000000000;
  plan.memory_available = 4000000000;
  const auto result = check_memory(plan, 131072);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kTooLarge);
  for (const char* part : {"131072", "8.0 GB", "4.0 GB"})
    EXPECT_NE(result.error().message().find(part), std::string::npos) << part;
  EXPECT_GT(available_memory(), 0);
}

TEST(Plan, SpeedFollowsWhatIsSeen) {
  SpeedModel speed(1e9);
  EXPECT_DOUBLE_EQ(speed.seconds(2e9), 2);
  for (int i = 0; i < 20; ++i) speed.learn(1e9, 2);
  EXPECT_NEAR(speed.rate(), 0.5e9, 1e3);
  speed.learn(0, 1);
  speed.learn(1, 0);
  EXPECT_NEAR(speed.rate(), 0.5e9, 1e3);
  EXPECT_EQ(human_seconds(45), "45 s");
  EXPECT_EQ(human_seconds(200), "3 min 20 s");
  EXPECT_EQ(human_seconds(7500), "2 h 5 min");
  EXPECT_EQ(human_seconds(1e300), "unknown");
}

TEST(Plan, ProgressOfPartsAddsUp) {
  std::vector<double> seen;
  Control control;
  control.progress = [&](double done, double total) { seen.push_back(done / total); };
  const Control part = part_of(control, 30, 20, 100);
  part.progress(0, 4);
  part.progress(2, 4);
  part.progress(4, 4);
  EXPECT_EQ(seen, (std::vector<double>{0.3, 0.4, 0.5}));
}

TEST(Curve, MeansOfRangesAndPairedDifferences) {
  Sample a{"none", 101, {std::vector<double>(100, 2.0)}, 1, 101, 101};
  Sample b{"ntk:2", 101, {std::vector<double>(100, 1.5)}, 1, 101, 101};
  for (int i = 0; i < 100; ++i) {
    a.windows[0][static_cast<size_t>(i)] += 0.01 * i;
    b.windows[0][static_cast<size_t>(i)] += 0.01 * i;
  }
  const Curve loss = make_curve(b, nullptr, 10);
  ASSERT_EQ(loss.points.size(), 10u);
  EXPECT_EQ(loss.points[9].to, 100);
  EXPECT_NEAR(loss.points[0].mean, 1.545, 1e-12);
  const Curve delta = make_curve(b, &a, 10);
  for (const CurvePoint& point : delta.points) EXPECT_NEAR(point.mean, -0.5, 1e-12);
}

}  // namespace
}  // namespace ropewalk
