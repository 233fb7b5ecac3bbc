#include "base/aligned.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "base/control.h"

namespace ropewalk {
namespace {

TEST(AlignedBuffer, AlignedAndWritable) {
  for (const int64_t count : {1, 2, 15, 16, 17, 100003}) {
    auto buffer = AlignedBuffer<float>::make(count);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    ASSERT_EQ(buffer->span().size(), static_cast<size_t>(count));
    for (float& x : buffer->span()) x = 1.0F;
  }
}

TEST(AlignedBuffer, EmptyIsNoError) {
  const auto buffer = AlignedBuffer<double>::make(0);
  ASSERT_TRUE(buffer);
  EXPECT_EQ(buffer->size(), 0);
  EXPECT_TRUE(buffer->span().empty());
}

TEST(AlignedBuffer, WhatCannotBeHadIsAnError) {
  for (const int64_t count : {std::numeric_limits<int64_t>::max(), int64_t{1} << 62, int64_t{1} << 47, int64_t{-1},
                              std::numeric_limits<int64_t>::min()}) {
    const auto buffer = AlignedBuffer<double>::make(count);
    ASSERT_FALSE(buffer) << count;
    EXPECT_EQ(buffer.error().code(), ErrorCode::kTooLarge);
  }
}

TEST(AlignedBuffer, AMovedFromBufferIsEmpty) {
  auto made = AlignedBuffer<int>::make(10);
  ASSERT_TRUE(made);
  AlignedBuffer<int> first = *std::move(made);
  AlignedBuffer<int> second = std::move(first);
  EXPECT_EQ(second.size(), 10);
  EXPECT_EQ(first.size(), 0);  // NOLINT(bugprone-use-after-move): empty is what a moved-from buffer promises
  EXPECT_TRUE(first.span().empty());
  first = std::move(second);
  EXPECT_EQ(first.size(), 10);
}

TEST(Control, DefaultNeitherStopsNorLogs) {
  const Control quiet;
  EXPECT_FALSE(quiet.stopped());
  quiet.note(LogLevel::kWarning, "nobody listens");
  std::atomic<bool> stop{false};
  int notes = 0;
  Control control;
  control.stop = &stop;
  control.log = [&](LogLevel level, std::string_view text) { notes += level == LogLevel::kNote && text == "x"; };
  EXPECT_FALSE(control.stopped());
  stop = true;
  EXPECT_TRUE(control.stopped());
  control.note(LogLevel::kNote, "x");
  EXPECT_EQ(notes, 1);
}

}  // namespace
}  // namespace ropewalk
