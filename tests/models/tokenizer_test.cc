// The tokenizers of the two real models: the ids of the issue, and a megabyte of text through each.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "base/atomic_file.h"
#include "formats/tokenizer/tokenizer.h"

namespace ropewalk {
namespace {

using Ids = std::vector<int32_t>;

std::string cache() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string own = variable("ROPEWALK_CACHE"); !own.empty()) return own;
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/ropewalk";
  return variable("HOME") + "/.cache/ropewalk";
}

constexpr std::array kModels = {"smollm2-135m-instruct-q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"};

std::unique_ptr<Tokenizer> open(const std::string& model) {
  const auto file = GgufFile::open(cache() + "/" + model);
  EXPECT_TRUE(file) << file.error().message() << " (scripts/fetch_models.sh fetches it)";
  if (!file) return nullptr;
  auto made = make_tokenizer(**file);
  EXPECT_TRUE(made) << made.error().message();
  return made ? *std::move(made) : nullptr;
}

std::string play(const std::string& name) {
  const auto text = read_file(cache() + "/plays/" + name);
  EXPECT_TRUE(text) << text.error().message() << " (scripts/fetch_models.sh fetches it)";
  return text ? *text : "";
}

TEST(ModelTokenizers, HamletBeginsAsTheIssueSays) {
  const std::string text = play("hamlet_gut_f.txt");
  const auto smollm = open(kModels[0]);
  const auto gemma = open(kModels[1]);
  ASSERT_TRUE(smollm && gemma);
  EXPECT_FALSE(smollm->info().add_bos);
  Ids ids = smollm->encode(text);
  ids.resize(12);
  EXPECT_EQ(ids, (Ids{504, 33128, 277, 519, 282, 24630, 198, 198, 6868, 376, 10516, 376}));
  EXPECT_TRUE(gemma->info().add_bos);
  EXPECT_EQ(gemma->info().bos, 2);
  ids = gemma->encode(text);
  EXPECT_EQ(ids.size(), 48843U);
  ids.resize(12);
  EXPECT_EQ(ids, (Ids{818, 1733, 4130, 703, 529, 124600, 108, 3895, 605, 24959, 605, 236761}));
}

// A megabyte of prose and a word of a megabyte: the time is recorded, not judged.
TEST(ModelTokenizers, AMegabyteComesBackWhole) {
  std::string prose = play("hamlet_gut_f.txt");
  while (prose.size() < size_t{1} << 20) prose += play("lear_gut_f.txt");
  prose.resize(size_t{1} << 20);
  std::string letters;
  for (uint32_t i = 0; letters.size() < size_t{1} << 20; i = i * 1664525U + 1013904223U)
    letters += static_cast<char>('a' + (i >> 24) % 26);
  const std::array<std::string, 4> texts = {prose, std::string(size_t{1} << 20, 'a'), letters,
                                            std::string(size_t{1} << 20, ' ')};
  for (const char* model : kModels) {
    const auto tokenizer = open(model);
    ASSERT_TRUE(tokenizer);
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::clock_t start = std::clock();
      const Ids ids = tokenizer->encode(texts[i]);
      const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      RecordProperty(std::string(model) + "_text_" + std::to_string(i) + "_ms", static_cast<int>(seconds * 1000));
      EXPECT_EQ(tokenizer->decode(ids), texts[i]);
    }
  }
}

}  // namespace
}  // namespace ropewalk
