#include "workbench/journal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/atomic_file.h"
#include "base/testing_folder.h"
#include "workbench/eval.h"
#include "workbench/synthetic.h"

namespace ropewalk {
namespace {

class JournalTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::string path_ = folder_ / "journal.jsonl";
};

TEST_F(JournalTest, GivesBackWhatWasAddedToTheLastBit) {
  const JournalKey key{"yarn:2:beta_fast=\"16\"", 0xfedcba9876543210u, 3, 4};
  const JournalEntry entry{{0.1, 1.0 / 3, 12345.678901234567}, 1.25};
  {
    Journal journal = Journal::open(path_, "model 1").value();
    ASSERT_TRUE(journal.add(key, entry));
  }
  Journal again = Journal::open(path_, "model 1").value();
  ASSERT_NE(again.find(key), nullptr);
  EXPECT_EQ(again.find(key)->nll, entry.nll);
  EXPECT_EQ(again.find(key)->seconds, 1.25);
  EXPECT_EQ(again.find({"yarn:2", key.text_hash, 3, 4}), nullptr);
  // Another model, precision or version shares nothing.
  EXPECT_EQ(Journal::open(path_, "model 2").value().find(key), nullptr);
}

TEST_F(JournalTest, SurvivesACutAtEveryByte) {
  {
    Journal journal = Journal::open(path_, "m").value();
    ASSERT_TRUE(journal.add({"none", 1, 0, 3}, {{1.5, 2.5}, 1}));
    ASSERT_TRUE(journal.add({"ntk:2", 1, 0, 3}, {{3.5, 4.5}, 1}));
  }
  const std::string whole = read_file(path_).value();
  const size_t first = whole.find('\n') + 1;
  for (size_t cut = 0; cut < whole.size(); cut += 5) {
    std::ofstream(path_, std::ios::trunc) << whole.substr(0, cut);
    {
      Journal journal = Journal::open(path_, "m").value();
      EXPECT_EQ(journal.find({"none", 1, 0, 3}) != nullptr, cut + 1 >= first) << cut;
      ASSERT_TRUE(journal.add({"linear:2", 1, 0, 3}, {{5.5, 6.5}, 1}));
    }
    Journal journal = Journal::open(path_, "m").value();
    ASSERT_NE(journal.find({"linear:2", 1, 0, 3}), nullptr) << cut;  // the line after a cut one is whole
  }
}

TEST_F(JournalTest, PassesOverWhatItCannotUse) {
  std::ofstream(path_) << "\n[]\n{\"context\":\"m\"}\nnot json\n"
                       << R"({"context":"m","setting":"a","text":1,"start":0,"length":9,"seconds":1,"nll":[1,2]})"
                       << "\n"
                       << R"({"context":"m","setting":"a","text":1,"start":0,"length":3,"seconds":1,"nll":[1,null]})"
                       << "\n"
                       << R"({"context":"m","setting":5,"text":1,"start":0,"length":3,"seconds":1,"nll":[1,2]})"
                       << "\n";
  Journal journal = Journal::open(path_, "m").value();
  EXPECT_TRUE(journal.entries().empty());
  EXPECT_EQ(journal.skipped(), 6);
}

TEST_F(JournalTest, AFolderThatIsNotThereIsAnErrorThatNamesIt) {
  const auto journal = Journal::open(folder_ / "missing/j", "m");
  ASSERT_FALSE(journal);
  EXPECT_EQ(journal.error().code(), ErrorCode::kIo);
  EXPECT_NE(journal.error().message().find("missing"), std::string::npos);
}

TEST_F(JournalTest, AnInterruptedRunResumesAndEndsTheSame) {
  const Corpus corpus = synthetic::corpus({5000});
  EvalRequest request;
  request.settings = {"none", "ntk:2", "yarn:2"};
  request.lengths = {3000, 1500};
  const auto run = [&](int64_t stop_after, bool journalled, synthetic::Calls& calls) {
    calls.stop_after = stop_after;
    const Scorer scorer = synthetic::scorer(calls, 1000);
    std::optional<Journal> journal;
    if (journalled) journal.emplace(Journal::open(path_, "m").value());
    Measurements measurements(scorer, corpus, journal ? &*journal : nullptr);
    const EvalPlan plan = plan_eval(measurements, request).value();
    return run_eval(measurements, request, plan, {}).value();
  };
  synthetic::Calls stopped, resumed, straight;
  EXPECT_FALSE(run(1, true, stopped).complete);
  const EvalResult second = run(-1, true, resumed);
  const EvalResult reference = run(-1, false, straight);
  EXPECT_TRUE(second.complete);
  EXPECT_EQ(stopped.passes, 1);
  EXPECT_EQ(resumed.passes, 2);
  ASSERT_EQ(second.paired.size(), reference.paired.size());
  for (size_t i = 0; i < second.paired.size(); ++i) {
    EXPECT_EQ(second.paired[i].delta.mean, reference.paired[i].delta.mean);
    EXPECT_EQ(second.paired[i].delta.low, reference.paired[i].delta.low);
  }
}

}  // namespace
}  // namespace ropewalk
