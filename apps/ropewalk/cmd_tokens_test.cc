// tokens, run as a script would.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/testing_folder.h"
#include "formats/tokenizer/testing_tokenizer.h"

namespace ropewalk::app {
namespace {

using nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out, err;
};

std::string slurp(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class TokensCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::TokenizerKeys keys;
    keys.model = "llama";
    keys.tokens = {"<unk>", "<s>", "</s>", "a", "b", "ab", "\xE2\x96\x81", "<0xC3>", "<0xA9>", "\n"};
    keys.types = {2, 3, 3, 1, 1, 1, 1, 6, 6, 1};
    keys.scores.assign(keys.tokens.size(), 0);
    keys.flags = {{"add_space_prefix", false}};
    model_ = folder_.write("model.gguf", keys.build());
  }
  Outcome run(const std::string& arguments) {
    const std::string out = folder_.path() + "/out", err = folder_.path() + "/err";
    const std::string command = std::string("'" ROPEWALK_PROGRAM "' tokens ") + arguments + " >'" + out + "' 2>'" + err + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
  }
  TemporaryFolder folder_;
  std::string model_;
};

TEST_F(TokensCommand, JsonHoldsIdsAndPieces) {
  const std::string text = folder_.write("text", "ab \xC3\xA9\n");
  const Outcome outcome = run(model_ + " --text " + text + " --json -");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  EXPECT_EQ(result["command"], "tokens");
  EXPECT_EQ(result["ids"], (json{1, 5, 6, 7, 8, 9}));  // the file asks for a BOS: its kind's default
  EXPECT_EQ(result["pieces"], (json{"<s>", "ab", "\xE2\x96\x81", "<0xC3>", "<0xA9>", "\n"}));
  EXPECT_EQ(result["bos_added"], true);
  EXPECT_EQ(result["model"]["tokenizer"], "llama");
  const Outcome plain = run(model_ + " --prompt '</s>ab' --plain --special --json -");
  EXPECT_EQ(json::parse(plain.out)["ids"], (json{2, 5}));
}

TEST_F(TokensCommand, TerminalShowsTextNotBytes) {
  const Outcome outcome = run(model_ + " --prompt 'ab \xC3\xA9\n'");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"6 tokens", "\"ab\"", "\" \"", "\"\\xC3\"", "\"\\n\"", "\"<s>\""}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is not in " << outcome.out;
  }
}

TEST_F(TokensCommand, WrongInputAndWrongUse) {
  Outcome outcome = run(model_ + " --text " + folder_.path() + "/none");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("/none"), std::string::npos) << outcome.err;
  outcome = run(folder_.path() + "/none.gguf --prompt a");
  EXPECT_EQ(outcome.code, 1);
  outcome = run(folder_.path() + " --prompt a");  // a folder without tokenizer.json
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("tokenizer.json"), std::string::npos) << outcome.err;
  EXPECT_EQ(run(model_).code, 2);
  EXPECT_EQ(run(model_ + " --prompt a --text b").code, 2);
}

}  // namespace
}  // namespace ropewalk::app
