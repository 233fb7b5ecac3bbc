#include "formats/tensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "formats/testing_bytes.h"

namespace ropewalk {
namespace {

std::map<std::string, BlockType> types_by_name() {
  std::map<std::string, BlockType> types;
  for (int i = 0; i <= static_cast<int>(BlockType::kIQ4_XS); ++i) {
    types[to_string(static_cast<BlockType>(i))] = static_cast<BlockType>(i);
  }
  return types;
}

// golden_dequantize.txt was made by golden.py with the Python package gguf. Equality is exact: see simd/dequant.h for why no
// rounding can differ. NaN equals NaN, whatever its bits.
TEST(Dequantize, EqualsGgmlsFormulasBitForBit) {
  std::ifstream in(ROPEWALK_SOURCE_DIR "/src/formats/golden_dequantize.txt");
  ASSERT_TRUE(in);
  const auto types = types_by_name();
  int lines = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    ++lines;
    std::istringstream fields(line);
    std::string name, blocks_hex, values_hex;
    fields >> name >> blocks_hex >> values_hex;
    ASSERT_TRUE(types.contains(name)) << name;
    const BlockType type = types.at(name);
    const std::string blocks = testing::from_hex(blocks_hex);
    const auto count = static_cast<int64_t>(values_hex.size() / 8);
    ASSERT_EQ(static_cast<int64_t>(blocks.size()), count / block_elements(type) * block_bytes(type)) << name;
    for (const size_t shift : {size_t{0}, size_t{1}}) {  // blocks in files have no alignment
      const std::string moved = std::string(shift, 'x') + blocks;
      std::vector<float> got(static_cast<size_t>(count) + 1, -777.0f);
      dequantize(type, testing::as_bytes(moved).data() + shift, count, got.data());
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        const auto want = static_cast<uint32_t>(std::stoul(values_hex.substr(8 * i, 8), nullptr, 16));
        if (std::isnan(std::bit_cast<float>(want))) {
          ASSERT_TRUE(std::isnan(got[i])) << name << ' ' << i;
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), want)
              << name << " element " << i << ": " << got[i] << " for " << std::bit_cast<float>(want);
        }
      }
      EXPECT_EQ(got.back(), -777.0f) << name << " wrote past the end";
    }
  }
  EXPECT_EQ(lines, 14);
}

TEST(Dequantize, RowsAreThoseOfTheMatrix) {
  std::vector<float> data(5 * 7);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  StoredTensor t;
  t.shape = {5, 7};
  t.data = std::as_bytes(std::span<const float>(data));
  EXPECT_EQ(t.elements(), 35);
  float out[14] = {};
  dequantize_rows(t, 2, 2, out);
  for (int i = 0; i < 14; ++i) EXPECT_EQ(out[i], static_cast<float>(14 + i));
  dequantize_rows(t, 5, 0, out);  // nothing
  EXPECT_EQ(out[0], 14.0f);

  // Q8_0 rows of 64: two blocks of 34 bytes each; row r holds the quant r + 1 with scale 1.
  std::string rows;
  for (int r = 0; r < 3; ++r) {
    for (int b = 0; b < 2; ++b) rows += std::string("\x00\x3c", 2) + std::string(32, static_cast<char>(r + 1));
  }
  StoredTensor q;
  q.type = BlockType::kQ8_0;
  q.shape = {3, 64};
  q.data = testing::as_bytes(rows);
  std::vector<float> got(128);
  dequantize_rows(q, 1, 2, got.data());
  for (size_t i = 0; i < 128; ++i) EXPECT_EQ(got[i], i < 64 ? 2.0f : 3.0f);
}

}  // namespace
}  // namespace ropewalk
