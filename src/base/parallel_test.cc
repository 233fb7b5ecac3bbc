#include "base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace ropewalk {
namespace {

TEST(ParallelFor, EveryIndexOnceWithAThreadInRange) {
  for (const int threads : {-1, 0, 1, 2, 3, 8, 64}) {
    for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{7}, int64_t{1000}}) {
      std::vector<int> seen(static_cast<size_t>(n), 0);  // each index is written by one thread: TSan sees if not
      std::atomic<bool> in_range{true};
      parallel_for({threads}, n, [&](int64_t i, int thread) {
        seen[static_cast<size_t>(i)] += 1;
        if (thread < 0 || thread >= std::max(threads, 1)) in_range = false;
      });
      EXPECT_TRUE(in_range);
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), n) << threads << " threads";
    }
  }
}

TEST(ParallelFor, NegativeCountIsNoWork) {
  parallel_for({4}, -5, [](int64_t, int) { FAIL(); });
  parallel_ranges({4}, -5, 1, [](int64_t, int64_t, int) { FAIL(); });
}

TEST(ParallelFor, MoreThreadsThanWork) {
  std::atomic<int> calls{0};
  parallel_for({1000}, 3, [&](int64_t, int thread) {
    EXPECT_LT(thread, 3);
    ++calls;
  });
  EXPECT_EQ(calls, 3);
}

// Scratch memory by thread is safe: two items never run at once under the same number.
TEST(ParallelFor, AThreadNumberIsUsedByOneItemAtATime) {
  constexpr int kThreads = 4;
  std::vector<int64_t> scratch(kThreads, 0);  // not atomic on purpose
  parallel_for({kThreads}, 20000, [&](int64_t i, int thread) { scratch[static_cast<size_t>(thread)] += i; });
  int64_t sum = 0;
  for (const int64_t part : scratch) sum += part;
  EXPECT_EQ(sum, int64_t{20000} * 19999 / 2);
}

TEST(ParallelFor, NestedCallsRunSeriallyOnTheirThread) {
  std::vector<std::vector<int64_t>> order(8);
  parallel_for({4}, 8, [&](int64_t outer, int) {
    parallel_for({4}, 100, [&](int64_t inner, int thread) {
      EXPECT_EQ(thread, 0);
      order[static_cast<size_t>(outer)].push_back(inner);
    });
  });
  for (const auto& row : order) {
    ASSERT_EQ(row.size(), 100u);
    EXPECT_TRUE(std::is_sorted(row.begin(), row.end()));
  }
}

// After a nested or a serial call, the next one is parallel again (thread numbers beyond 0 may be used, and none is out of
// range).
TEST(ParallelFor, ManyCallsInARow) {
  int64_t total = 0;
  for (int round = 0; round < 200; ++round) {
    std::atomic<int64_t> sum{0};
    parallel_for({1 + round % 5}, round, [&](int64_t i, int) { sum += i; });
    total += sum;
  }
  int64_t expected = 0;
  for (int64_t round = 0; round < 200; ++round) expected += round * (round - 1) / 2;
  EXPECT_EQ(total, expected);
}

TEST(ParallelRanges, CoverWithoutGapsAndAreBalanced) {
  for (const int threads : {0, 1, 2, 3, 7}) {
    for (const int64_t n : {1, 2, 3, 12, 13, 100, 101}) {
      for (const int64_t grain : {0, 1, 3, 4, 50, 1000}) {
        std::mutex mutex;
        std::vector<std::pair<int64_t, int64_t>> ranges;
        parallel_ranges({threads}, n, grain, [&](int64_t begin, int64_t end, int) {
          const std::lock_guard lock(mutex);
          ranges.emplace_back(begin, end);
        });
        std::sort(ranges.begin(), ranges.end());
        ASSERT_FALSE(ranges.empty());
        ASSERT_LE(ranges.size(), static_cast<size_t>(std::max(threads, 1)));
        int64_t at = 0, shortest = n, longest = 0;
        for (const auto& [begin, end] : ranges) {
          ASSERT_EQ(begin, at);
          ASSERT_LT(begin, end);
          shortest = std::min(shortest, end - begin);
          longest = std::max(longest, end - begin);
          at = end;
        }
        EXPECT_EQ(at, n);
        EXPECT_LE(longest - shortest, 1);
        EXPECT_GE(shortest, std::min(grain, n)) << "n " << n << " grain " << grain << " threads " << threads;
      }
    }
  }
}

TEST(FunctionRef, KeepsConstAndReturns) {
  const auto add = [](int a, int b) { return a + b; };
  const FunctionRef<int(int, int)> reference = add;
  EXPECT_EQ(reference(2, 3), 5);
  int calls = 0;
  auto count = [&] { ++calls; };
  const FunctionRef<void()> first = count;
  const FunctionRef<void()> second = first;  // copies the reference, not a reference to the reference
  second();
  EXPECT_EQ(calls, 1);
}

TEST(AvailableCores, AtLeastOne) { EXPECT_GE(available_cores(), 1); }

}  // namespace
}  // namespace ropewalk
