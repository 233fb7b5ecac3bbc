#include <gtest/gtest.h>

#include "command.h"
#include "frame.h"
#include "terminal.h"

namespace ropewalk::app {
namespace {

TEST(ParseLength, AcceptsPlainAndSuffixed) {
  EXPECT_EQ(parse_length("8192", "--to").value(), 8192);
  EXPECT_EQ(parse_length("8k", "--to").value(), 8192);
  EXPECT_EQ(parse_length("8K", "--to").value(), 8192);
  EXPECT_EQ(parse_length("1m", "--to").value(), 1048576);
  EXPECT_EQ(parse_length("1", "--to").value(), 1);
  EXPECT_EQ(parse_length("9223372036854775807", "--to").value(), INT64_MAX);
  EXPECT_EQ(parse_length("8796093022207m", "--to").value(), INT64_C(8796093022207) << 20);
}

TEST(ParseLength, RefusesEverythingElseAndNamesTheFlag) {
  for (const char* text : {"",
                           "k",
                           "-1",
                           "+1",
                           "0",
                           "0k",
                           "8kk",
                           "8 k",
                           " 8",
                           "8 ",
                           "1.5k",
                           "0x10",
                           "1e3",
                           "8g",
                           "nan",
                           "9223372036854775808",
                           "18446744073709551617",
                           "8796093022208m",
                           "9007199254740992k",
                           "8\xc2\xa0k"}) {
    const auto result = parse_length(text, "--to");
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(result.error().message().find("--to: expected a length"), std::string::npos) << result.error().message();
    EXPECT_NE(result.error().message().find(std::string("'") + text + "'"), std::string::npos) << result.error().message();
  }
  EXPECT_FALSE(parse_length(std::string("8\0k", 3), "--to"));
}

TEST(ParseLengths, ListsKeepTheirOrder) {
  EXPECT_EQ(parse_lengths("16k,2k,100", "--lengths").value(), (std::vector<int64_t>{16384, 2048, 100}));
  for (const char* text : {"", ",", "2k,", ",2k", "2k,,4k", "2k;4k", "2k, 4k"})
    EXPECT_FALSE(parse_lengths(text, "--lengths")) << text;
}

TEST(ParseSeconds, UnitsAndLimits) {
  EXPECT_DOUBLE_EQ(parse_seconds("90s", "--budget").value(), 90);
  EXPECT_DOUBLE_EQ(parse_seconds("90", "--budget").value(), 90);
  EXPECT_DOUBLE_EQ(parse_seconds("10m", "--budget").value(), 600);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5h", "--budget").value(), 5400);
  for (const char* text : {"", "s", "-1s", "0", "0s", "inf", "nan", "1e3", "1d", "10 m", "99999999h", "1..5m"}) {
    EXPECT_FALSE(parse_seconds(text, "--budget")) << text;
  }
}

TEST(ParseBytes, UnitsAndOverflow) {
  EXPECT_EQ(parse_bytes("512mb", "--memory").value(), int64_t{512} << 20);
  EXPECT_EQ(parse_bytes("4GB", "--memory").value(), int64_t{4} << 30);
  EXPECT_EQ(parse_bytes("100", "--memory").value(), 100);
  EXPECT_EQ(parse_bytes("1kb", "--memory").value(), 1024);
  for (const char* text : {"", "mb", "-1mb", "0gb", "8388608tb", "1.5gb", "4gib", "9223372036854775808"}) {
    EXPECT_FALSE(parse_bytes(text, "--memory")) << text;
  }
  EXPECT_EQ(parse_bytes("8388607tb", "--memory").value(), INT64_C(8388607) << 40);
}

TEST(ParseInteger, Range) {
  EXPECT_EQ(parse_integer("-3", -5, 5, "-n").value(), -3);
  for (const char* text : {"6", "-6", "", "1x", "1.0", "99999999999999999999"})
    EXPECT_FALSE(parse_integer(text, -5, 5, "-n")) << text;
}

TEST(Nearest, SuggestsWhatWasMeant) {
  const std::vector<std::string> known{"eval", "extend", "inspect", "info", "bench"};
  EXPECT_EQ(nearest("evla", known), "eval");
  EXPECT_EQ(nearest("inspct", known), "inspect");
  EXPECT_EQ(nearest("benchmark", known), "");
  EXPECT_EQ(nearest("zzzzz", known), "");
}

TEST(Terminal, Numbers) {
  EXPECT_EQ(short_number(0.5), "0.50");
  EXPECT_EQ(short_number(12.34), "12.3");
  EXPECT_EQ(short_number(999.4), "999");
  EXPECT_EQ(short_number(999.6), "1.00k");
  EXPECT_EQ(short_number(14200), "14.2k");
  EXPECT_EQ(short_bytes(1536), "1.5 kB");
  EXPECT_EQ(short_time(4.25), "4.2 s");
  EXPECT_EQ(short_time(185), "3:05");
  EXPECT_EQ(short_time(3723), "1:02:03");
}

TEST(Terminal, TableAlignsNumbersRight) {
  EXPECT_EQ(format_table({"name", "ms"}, {{"a", "1.5"}, {"long", "10.5"}}), "name    ms\na      1.5\nlong  10.5\n");
}

TEST(Progress, ShowsRateAndTimeLeft) {
  EXPECT_EQ(progress_text("scoring", "tokens", 2500, 10000, 5), "scoring   25%  500 tokens/s  15 s left");
  EXPECT_EQ(progress_text("scoring", "", 0, 100, 3), "scoring    0%");
}

}  // namespace
}  // namespace ropewalk::app
