// All 35 folio plays, 4.5 MB, under the two models' tokenizers, against independent implementations: golden_plays.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/atomic_file.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer/unicode.h"

namespace ropewalk {
namespace {

std::string cache() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string own = variable("ROPEWALK_CACHE"); !own.empty()) return own;
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/ropewalk";
  return variable("HOME") + "/.cache/ropewalk";
}

// Latin-1 to UTF-8, so that the text has characters past ASCII and is valid.
std::string all_plays(size_t& count) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(cache() + "/plays", error)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  count = paths.size();
  std::string text;
  for (const std::string& path : paths) {
    const auto bytes = read_file(path);
    EXPECT_TRUE(bytes) << bytes.error().message();
    if (!bytes) continue;
    for (const char c : *bytes) append_utf8(text, static_cast<uint8_t>(c));
  }
  return text;
}

uint32_t crc32(const std::vector<int32_t>& ids) {
  uint32_t crc = ~uint32_t{0};
  for (const int32_t id : ids) {
    for (uint32_t shift = 0; shift < 32; shift += 8) {
      crc ^= (static_cast<uint32_t>(id) >> shift) & 0xFFU;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320U & (0U - (crc & 1U)));
    }
  }
  return ~crc;
}

void expect_ids(const std::string& model, size_t count, uint32_t crc) {
  size_t plays = 0;
  const std::string text = all_plays(plays);
  ASSERT_EQ(plays, 35U) << "scripts/fetch_models.sh fetches them";
  const auto file = GgufFile::open(cache() + "/" + model);
  ASSERT_TRUE(file) << file.error().message() << " (scripts/fetch_models.sh fetches it)";
  const auto tokenizer = make_tokenizer(**file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  const std::vector<int32_t> ids = (*tokenizer)->encode(text);
  EXPECT_EQ(ids.size(), count);
  EXPECT_EQ(crc32(ids), crc);
  EXPECT_TRUE((*tokenizer)->decode(ids) == text);
}

TEST(TokenizerPlays, SmolLm2) { expect_ids("smollm2-135m-instruct-q4_1.gguf", 1379389, 0x869e5664); }
TEST(TokenizerPlays, Gemma) { expect_ids("gemma-3-270m-q4_k_m.gguf", 1343833, 0x1dc3bcff); }

}  // namespace
}  // namespace ropewalk
