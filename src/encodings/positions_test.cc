#include "encodings/positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace ropewalk {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// pos-from-mask: padding left, right and both; the padding's own value is free, its segment hides it.
TEST(Positions, pos_from_mask) {
  const uint8_t left[] = {0, 0, 1, 1, 1}, none[] = {1, 1, 1, 1, 1}, right[] = {1, 1, 1, 0, 0}, both[] = {0, 1, 1, 1, 0};
  EXPECT_THAT(positions_from_mask(left), ElementsAre(0, 0, 0, 1, 2));
  EXPECT_THAT(padding_segments(left), ElementsAre(-1, -1, 0, 0, 0));
  EXPECT_THAT(positions_from_mask(none), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(positions_from_mask(right), ElementsAre(0, 1, 2, 0, 0));
  EXPECT_THAT(positions_from_mask(both), ElementsAre(0, 0, 1, 2, 0));
  EXPECT_THAT(padding_segments(both), ElementsAre(-1, 0, 0, 0, -1));
  EXPECT_TRUE(positions_from_mask({}).empty());
}

// pos-packed-documents: 20 and 5 tokens, the second counts from 0 again; an empty document takes a number and no tokens.
TEST(Positions, pos_packed_documents) {
  const int64_t lengths[] = {20, 5};
  const auto row = positions_packed(lengths).value();
  ASSERT_EQ(row.positions.size(), 25U);
  EXPECT_EQ(row.positions[19], 19);
  EXPECT_EQ(row.positions[20], 0);
  EXPECT_EQ(row.positions[24], 4);
  const auto visible = [&](size_t i) {  // causal, same segment
    int count = 0;
    for (size_t j = 0; j <= i; ++j) count += row.segments[j] == row.segments[i];
    return count;
  };
  EXPECT_THAT((std::vector<int>{visible(0), visible(19), visible(20), visible(24)}), ElementsAre(1, 20, 1, 5));
  const int64_t with_empty[] = {1, 0, 2};
  EXPECT_THAT(positions_packed(with_empty).value().segments, ElementsAre(0, 2, 2));
  const int64_t bad[] = {3, -1};
  EXPECT_THAT(positions_packed(bad).error().message(), HasSubstr("-1"));
  const std::vector<int64_t> endless = {INT64_MAX, INT64_MAX};
  EXPECT_EQ(positions_packed(endless).error().code(), ErrorCode::kTooLarge);
}

// pos-draft-tree: the position is the depth; a token sees the cache and its own ancestors.
TEST(Positions, pos_draft_tree) {
  const int32_t parent[] = {-1, 0, 1, 1, 0, 4, 3};
  const auto tree = positions_tree(100, parent).value();
  EXPECT_THAT(tree.positions, ElementsAre(100, 101, 102, 102, 101, 102, 103));
  std::vector<int> visible;
  for (int i = 0; i < 7; ++i) {
    const auto row = tree.mask.begin() + i * 107;
    visible.push_back(std::accumulate(row, row + 107, 0));
  }
  EXPECT_THAT(visible, ElementsAre(101, 102, 103, 103, 102, 103, 104));
  EXPECT_EQ(tree.mask[6 * 107 + 100 + 2], 0);  // a sibling of its parent stays hidden
  EXPECT_EQ(tree.mask[6 * 107 + 100 + 3], 1);
  for (const int32_t bad : {1, 5, -2}) {
    const int32_t wrong[] = {-1, bad};
    EXPECT_FALSE(positions_tree(3, wrong)) << bad;
  }
  EXPECT_EQ(positions_tree(INT64_MAX - 1, parent).error().code(), ErrorCode::kTooLarge);
}

TEST(Positions, pos_broadcast) {
  const int64_t one[] = {0, 1, 2}, two[] = {0, 1, 2, 7, 8, 9};
  EXPECT_THAT(broadcast_positions(one, 1, 2).value(), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(broadcast_positions(two, 2, 2).value(), ElementsAre(0, 1, 2, 7, 8, 9));
  const auto error = broadcast_positions(two, 2, 3);
  ASSERT_FALSE(error);
  EXPECT_THAT(error.error().message(), HasSubstr("3"));
  EXPECT_THAT(error.error().message(), HasSubstr("2"));
}

}  // namespace
}  // namespace ropewalk
