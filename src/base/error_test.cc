#include "ropewalk/error.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "base/fail.h"

namespace ropewalk {
namespace {

Result<int> parse(int x) {
  if (x < 0) return fail(ErrorCode::kInvalidArgument, "[parse] expected x >= 0, but got {}", x);
  return x;
}

Result<std::string> twice(int x) {
  ROPEWALK_TRY(const int first, parse(x));
  ROPEWALK_TRY(const int second, parse(first));
  return std::to_string(first + second);
}

Result<void> check(int x) {
  ROPEWALK_CHECK_OK(twice(x));
  return {};
}

TEST(Result, ValueAndError) {
  const auto good = parse(3);
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, 3);
  EXPECT_EQ(good.value(), 3);
  const auto bad = parse(-1);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(bad.error().message(), "[parse] expected x >= 0, but got -1");
}

TEST(Result, TryPassesTheErrorOn) {
  EXPECT_EQ(*twice(4), "8");
  EXPECT_EQ(twice(-2).error().message(), "[parse] expected x >= 0, but got -2");
  EXPECT_TRUE(check(1));
  EXPECT_EQ(check(-3).error().code(), ErrorCode::kInvalidArgument);
}

TEST(Result, ValueThrowsTheSameError) {
  for (const bool in_void : {false, true}) {
    try {
      if (in_void) check(-1).value();
      if (!in_void) (void)parse(-1).value();
      FAIL() << "expected an exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_STREQ(error.what(), "[parse] expected x >= 0, but got -1");
    }
  }
}

TEST(Result, HoldsWhatCanOnlyMove) {
  Result<std::unique_ptr<int>> box = std::make_unique<int>(7);
  ASSERT_TRUE(box);
  EXPECT_EQ(**box, 7);
  const std::unique_ptr<int> out = *std::move(box);
  EXPECT_EQ(*out, 7);
  EXPECT_EQ(*Result<std::unique_ptr<int>>(std::make_unique<int>(8)).value(), 8);
}

TEST(Result, ArrowReachesMembers) {
  Result<std::string> text = std::string("abc");
  text->push_back('d');
  EXPECT_EQ(std::as_const(text)->size(), 4u);
}

TEST(ErrorCode, EveryCodeHasItsOwnName) {
  const ErrorCode codes[] = {ErrorCode::kInvalidArgument, ErrorCode::kNotFound, ErrorCode::kIo,         ErrorCode::kCorrupt,
                             ErrorCode::kUnsupported,     ErrorCode::kTooLarge, ErrorCode::kInterrupted};
  std::set<std::string> names;
  for (const ErrorCode code : codes) names.insert(to_string(code));
  EXPECT_EQ(names.size(), std::size(codes));
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_STREQ(to_string(static_cast<ErrorCode>(99)), "unknown");
}

// A message that holds braces must not be taken for a format.
TEST(Fail, BracesInTextsAreText) {
  const std::string hostile = "{} {0:x} %s";
  EXPECT_EQ(fail(ErrorCode::kCorrupt, "[x] key {}", hostile).message(), "[x] key {} {0:x} %s");
}

}  // namespace
}  // namespace ropewalk
