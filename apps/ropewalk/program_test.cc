// Runs the built program as a user or a script would.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/parallel.h"
#include "base/testing_folder.h"
#include "command.h"
#include "frame.h"
#include "ropewalk/version.h"

namespace ropewalk::app {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Outcome {
  int code = -1;
  std::string out, err;
};

// `arguments` as a shell writes them.
Outcome run(const std::string& arguments, const std::string& out_to = "") {
  const TemporaryFolder folder;
  const std::string out = out_to.empty() ? folder / "out" : out_to, err = folder / "err";
  const std::string line = std::string(ROPEWALK_PROGRAM) + " " + arguments + " >" + out + " 2>" + err;
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out_to.empty() ? slurp(out) : "", slurp(err)};
}

std::vector<std::string> commands() {
  CLI::App app;
  build_app(app);
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    for (const CLI::App* nested : command->get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(command->get_name() + " " + nested->get_name());
    }
  }
  return names;
}

TEST(Program, Version) {
  const Outcome outcome = run("--version");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, std::string("ropewalk ") + ROPEWALK_VERSION + "\n");
  EXPECT_EQ(outcome.err, "");
}

TEST(Program, HelpOfEveryCommandTeachesByExample) {
  ASSERT_FALSE(commands().empty());
  EXPECT_THAT(run("--help").out, HasSubstr("Examples:"));
  for (const auto& name : commands()) {
    const Outcome outcome = run(name + " --help");
    EXPECT_EQ(outcome.code, 0) << name;
    EXPECT_EQ(outcome.err, "") << name;
    const size_t examples = outcome.out.find("Examples:\n");
    ASSERT_NE(examples, std::string::npos) << name;
    EXPECT_THAT(outcome.out.substr(examples), HasSubstr("\n  ropewalk " + name.substr(0, name.find(' ')))) << name;
    if (outcome.out.find("COMMAND") == std::string::npos) {
      for (const char* flag : {"--json", "--quiet", "--threads", "--seed"}) EXPECT_THAT(outcome.out, HasSubstr(flag)) << name;
    }
  }
}

TEST(Program, WrongUseIsTwoAndSuggests) {
  const struct {
    const char* arguments;
    const char* message;
  } cases[] = {
      {"", "ropewalk --help"},
      {"inof", "did you mean 'info'?"},
      {"--versoin", "did you mean '--version'?"},
      {"info --treads 3", "did you mean '--threads'?"},
      {"info --treads=3", "did you mean '--threads'?"},
      {"info surplus", "'surplus'"},
      {"info --threads 0", "--threads: expected a whole number from 1 to 1024, but got '0'"},
      {"info --threads -2", "'-2'"},
      {"info --threads 4096", "'4096'"},
      {"info --threads 99999999999999999999", "--threads"},
      {"info --threads two", "'two'"},
      {"info --threads", "--threads"},
      {"info --seed -1", "--seed"},
      {"info --json", "--json"},
  };
  for (const auto& one : cases) {
    const Outcome outcome = run(one.arguments);
    EXPECT_EQ(outcome.code, 2) << one.arguments;
    EXPECT_EQ(outcome.out, "") << one.arguments;
    EXPECT_THAT(outcome.err, HasSubstr(one.message)) << one.arguments;
    EXPECT_THAT(outcome.err, HasSubstr("--help")) << one.arguments;
  }
}

TEST(Program, EnvelopeOnStandardOutputIsAlone) {
  const Outcome outcome = run("info --json - --threads 3 --quiet");
  ASSERT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  const json result = json::parse(outcome.out);  // fails on anything before or after
  EXPECT_EQ(result["ropewalk"], ROPEWALK_VERSION);
  EXPECT_EQ(result["schema"], 1);
  EXPECT_EQ(result["command"], "info");
  EXPECT_TRUE(result["model"].is_null());
  EXPECT_EQ(result["machine"]["threads"], 3);
  EXPECT_EQ(result["machine"]["cores"], available_cores());
  EXPECT_TRUE(result["machine"]["simd"].is_string());
  EXPECT_TRUE(result["machine"]["bf16_dot"].is_boolean());
  EXPECT_GT(result["machine"]["memory_bytes"].get<int64_t>(), 0);
}

TEST(Program, JsonFileIsWholeAndTheTableStays) {
  const TemporaryFolder folder;
  const std::string path = folder / "info.json";
  const Outcome outcome = run("info --json " + path);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("SIMD in use"));
  EXPECT_EQ(json::parse(slurp(path))["command"], "info");
  EXPECT_EQ(std::distance(fs::directory_iterator(fs::path(path).parent_path()), fs::directory_iterator()), 1);

  // Through a symbolic link, the file behind it is replaced; a device is written to, never replaced.
  fs::create_symlink(path, folder / "link");
  EXPECT_EQ(run("info --json " + (folder / "link")).code, 0);
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(run("info --json /dev/null").code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(Program, UnwritableJsonIsOneAndSaysWhy) {
  const TemporaryFolder folder;
  for (const std::string& path : {folder / "absent/x.json", fs::path(folder / "x").parent_path().string()}) {
    const Outcome outcome = run("info --json " + path);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(path));
  }
  EXPECT_EQ(run("info --json /dev/full").code, 1);
}

TEST(Program, FullDiskOnStandardOutputIsOne) {
  const Outcome outcome = run("info", "/dev/full");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("standard output"));
}

TEST(Program, BrokenPipeDoesNotCrash) {
  const TemporaryFolder folder;
  const std::string code = folder / "code", err = folder / "err";
  const std::string line =
      "{ sleep 0.2; " + std::string(ROPEWALK_PROGRAM) + " info 2>" + err + "; echo $? >" + code + "; } | true";
  ASSERT_EQ(std::system(line.c_str()), 0);
  EXPECT_EQ(slurp(code), "0\n");
  EXPECT_EQ(slurp(err), "");
}

TEST(Program, NoColourIntoAFile) { EXPECT_THAT(run("info").out, Not(HasSubstr("\x1b["))); }

TEST(Envelope, NanAndInfinityAndBadUtf8) {
  Common common;
  common.threads = 1;
  const json body = {{"rows", json::array({{{"value", std::numeric_limits<double>::quiet_NaN()}, {"list", {1, 2, 3}}},
                                           {{"value", std::numeric_limits<double>::infinity()}}})},
                     {"text", "bad \xff byte"},
                     {"empty", json::array()}};
  const std::string text = envelope_text(common, "test", nullptr, body);
  const json parsed = json::parse(text);
  EXPECT_TRUE(parsed["rows"][0]["value"].is_null());
  EXPECT_TRUE(parsed["rows"][1]["value"].is_null());
  EXPECT_EQ(parsed["text"], "bad \xef\xbf\xbd byte");
  EXPECT_TRUE(parsed["empty"].is_array());
  EXPECT_THAT(text, HasSubstr("\"list\": [1, 2, 3]"));
}

}  // namespace
}  // namespace ropewalk::app
