// Faults that position code really has, each reduced to a few numbers: the right values by hand or from the definition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "encodings/positions.h"
#include "ropewalk/attention.h"
#include "ropewalk/encodings.h"

namespace ropewalk {
namespace {

using ::testing::HasSubstr;
using Matrix = std::vector<std::vector<double>>;

constexpr double kHidden = std::numeric_limits<double>::quiet_NaN();  // a pair that the case does not look at

PositionEncoding make(const std::string& text, const EncodingContext& context,
                      const std::vector<EncodingWeight>& weights = {}) {
  auto made = make_encoding(text, context, weights);
  EXPECT_TRUE(made) << text << (made ? "" : made.error().message());
  return *std::move(made);
}

EncodingWeight table(const std::string& name, const std::vector<int64_t>& shape, const Matrix& rows) {
  EncodingWeight weight{name, shape, {}};
  for (const auto& row : rows) {
    for (const double x : row) weight.values.push_back(static_cast<float>(x));
  }
  return weight;
}

// b_h(d) for each of the distances.
std::vector<double> biases(const PositionEncoding& encoding, int head, int heads, const std::vector<int64_t>& distances) {
  std::vector<double> out;
  for (const int64_t d : distances) {
    double bias = 0;
    encoding.score->by_distance()->fill(head, heads, d, {&bias, 1});
    out.push_back(bias);
  }
  return out;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) continue;
    EXPECT_NEAR(got[i], want[i], tolerance) << what << " at " << i;
  }
}

// scale * q . k + the term, queries at positions first.., keys from 0.
Matrix scores(const PositionEncoding& encoding, const Matrix& q, const Matrix& k, double scale, int64_t first = 0) {
  const size_t dim = q[0].size();
  std::vector<float> queries, keys;
  for (const auto& row : q) queries.insert(queries.end(), row.begin(), row.end());
  for (const auto& row : k) keys.insert(keys.end(), row.begin(), row.end());
  std::vector<int64_t> m, n;
  for (size_t i = 0; i < q.size(); ++i) m.push_back(first + static_cast<int64_t>(i));
  for (size_t j = 0; j < k.size(); ++j) n.push_back(static_cast<int64_t>(j));
  EXPECT_TRUE(encoding.score->prepare(m.front() - n.back(), m.back() - n.front()));
  ScoreTile tile;
  tile.q_pos = m;
  tile.k_pos = n;
  tile.q = queries.data();
  tile.k = keys.data();
  tile.q_stride = tile.k_stride = static_cast<int64_t>(dim);
  tile.scale = scale;
  std::vector<double> flat(q.size() * k.size());
  for (size_t i = 0; i < q.size(); ++i) {
    for (size_t j = 0; j < k.size(); ++j) {
      for (size_t c = 0; c < dim; ++c) flat[i * k.size() + j] += scale * q[i][c] * k[j][c];
    }
  }
  encoding.score->add(tile, flat.data(), static_cast<int64_t>(k.size()));
  Matrix out;
  for (size_t i = 0; i < q.size(); ++i) {
    const auto* row = flat.data() + i * k.size();
    out.emplace_back(row, row + k.size());
  }
  return out;
}

void expect_near(const Matrix& got, const Matrix& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], want[i], tolerance, what + " row " + std::to_string(i));
}

// ---- ALiBi

std::vector<double> slopes(int heads, const std::string& text = "alibi") {
  const PositionEncoding encoding = make(text, {heads, 8, 8, 1024, 0});
  std::vector<double> list;
  for (int h = 0; h < heads; ++h) list.push_back(-biases(encoding, h, heads, {1})[0]);
  return list;
}

TEST(EncodingCases, bia_alibi_slopes) {
  const std::vector<double> eight = {1 / 2., 1 / 4., 1 / 8., 1 / 16., 1 / 32., 1 / 64., 1 / 128., 1 / 256.};
  expect_near(slopes(8), eight, 1e-12, "8");
  expect_near(slopes(1), {1 / 256.}, 1e-12, "1");
  expect_near(slopes(2), {1 / 16., 1 / 256.}, 1e-12, "2");
  expect_near(slopes(3), {1 / 16., 1 / 256., 1 / 4.}, 1e-12, "3");
  expect_near(slopes(6), {1 / 4., 1 / 16., 1 / 64., 1 / 256., 1 / 2., 1 / 8.}, 1e-12, "6");
  auto twelve = eight;
  for (const double exponent : {0.5, 1.5, 2.5, 3.5}) twelve.push_back(std::exp2(-exponent));
  expect_near(slopes(12), twelve, 1e-12, "12");
  const auto forty = slopes(40);
  for (int h = 0; h < 32; ++h) EXPECT_NEAR(forty[static_cast<size_t>(h)], std::exp2(-(h + 1) / 4.), 1e-12) << h;
  EXPECT_NEAR(forty[32], 0.9170040432046712, 1e-12);
  EXPECT_NEAR(forty[39], 0.2726269331663144, 1e-12);
}

// The other published construction, and MPT's alibi_bias_max.
TEST(EncodingCases, bia_alibi_other_rule_same_order) {
  for (const auto& [heads, max] : {std::pair{12, 8}, {6, 8}, {8, 16}, {6, 16}, {40, 8}, {5, 12}}) {
    int power = 1;
    while (power < heads) power *= 2;
    std::vector<double> list;
    for (const int start : {1, 0}) {  // odd places, then even ones, cut
      for (int i = start; i < power && power > heads; i += 2)
        list.push_back(std::exp2(-static_cast<double>(max) * (i + 1) / power));
    }
    for (int i = 0; i < power && power == heads; ++i) list.push_back(std::exp2(-static_cast<double>(max) * (i + 1) / power));
    list.resize(static_cast<size_t>(heads));
    expect_near(slopes(heads, "alibi:max=" + std::to_string(max)), list, 1e-12, std::to_string(heads));
  }
}

// A rank uses the slopes of its global heads.
TEST(EncodingCases, bia_alibi_tensor_parallel) {
  const PositionEncoding encoding = make("alibi", {12, 8, 8, 1024, 0});
  for (int h = 8; h < 12; ++h) EXPECT_NEAR(-biases(encoding, h, 12, {1})[0], std::exp2(-(h - 8 + 0.5)), 1e-12);
}

// The key-only form differs from the distances by a constant of the row, so a causal softmax is the same.
TEST(EncodingCases, bia_alibi_key_only) {
  const std::vector<double> want = {0.029377107928572472, 0.13165906352162496, 0.5900549859958115, 0.1690535838990723,
                                    0.0798552586549187};
  const std::vector<double> logits = {0, 1, 2, 0.25, -1};
  const PositionEncoding encoding = make("alibi:max=1", {1, 8, 8, 1024, 0});  // one head: slope 1/2
  const auto bias = biases(encoding, 0, 1, {4, 3, 2, 1, 0});
  for (const bool key_only : {false, true}) {
    std::vector<double> weights;
    double sum = 0;
    for (size_t n = 0; n < 5; ++n)
      sum += weights.emplace_back(std::exp(logits[n] + (key_only ? 0.5 * static_cast<double>(n) : bias[n])));
    for (double& w : weights) w /= sum;
    expect_near(weights, want, 1e-12, key_only ? "key only" : "distance");
  }
}

TEST(EncodingCases, bia_alibi_rows) {
  const PositionEncoding two = make("alibi", {2, 8, 8, 1024, 0});
  expect_near(biases(two, 0, 2, {5, 4, 3, 2, 1, 0}), {-0.3125, -0.25, -0.1875, -0.125, -0.0625, 0}, 1e-12, "one new token");
  expect_near(biases(two, 1, 2, {4, 3, 2, 1, 0}), {-0.015625, -0.01171875, -0.0078125, -0.00390625, 0}, 1e-12, "head 1");
  expect_near(biases(two, 0, 2, {-2, -1, 0, 1, 2}), {-0.125, -0.0625, 0, -0.0625, -0.125}, 1e-12, "both directions");
}

TEST(EncodingCases, bia_alibi_interpolated) {
  const auto plain = slopes(8), longer = slopes(8, "alibi:scale=0.25");  // 1024 / 4096
  for (size_t h = 0; h < 8; ++h) EXPECT_NEAR(longer[h], plain[h] / 4, 1e-12);
}

// Left padding: distances between real tokens only.
TEST(EncodingCases, bia_alibi_padded_positions) {
  const uint8_t mask[] = {0, 0, 1, 1, 1};
  const auto positions = positions_from_mask(mask);
  const PositionEncoding two = make("alibi", {2, 8, 8, 1024, 0});
  std::vector<int64_t> distances;
  for (size_t j = 2; j < 5; ++j) distances.push_back(positions[4] - positions[j]);
  expect_near(biases(two, 0, 2, distances), {-0.125, -0.0625, 0}, 1e-12, "head 0");
  expect_near(biases(two, 1, 2, distances), {-0.0078125, -0.00390625, 0}, 1e-12, "head 1");
}

// ---- T5: with table[bucket] = bucket the bias is the bucket. r = n - m = -d.

std::vector<double> buckets(const std::string& arguments, int count, const std::vector<int64_t>& r) {
  EncodingWeight weight{"table", {count, 1}, {}};
  for (int b = 0; b < count; ++b) weight.values.push_back(static_cast<float>(b));
  const PositionEncoding encoding = make("t5:buckets=" + std::to_string(count) + arguments, {1, 8, 8, 1024, 0}, {weight});
  std::vector<int64_t> distances;
  for (const int64_t x : r) distances.push_back(-x);
  return biases(encoding, 0, 1, distances);
}

TEST(EncodingCases, bia_t5_bidirectional) {
  EXPECT_EQ(buckets(":bidirectional=1", 32,
                    {-200, -128, -127, -91, -90, -64, -63, -46, -45, -33, -32, -31, -23, -22, -17, -16, -15, -13, -12, -11,
                     -9,   -8,   -7,   -1,  0,   1,   7,   8,   11,  12,  15,  16,  22,  23,  32,  64,  90,  91,  128, 200}),
            (std::vector<double>{15, 15, 15, 15, 14, 14, 13, 13, 12, 12, 12, 11, 11, 10, 10, 10, 9,  9,  9,  8,
                                 8,  8,  7,  1,  0,  17, 23, 24, 24, 25, 25, 26, 26, 27, 28, 30, 30, 31, 31, 31}));
}

TEST(EncodingCases, bia_t5_causal) {
  EXPECT_EQ(
      buckets("", 32, {-200, -128, -113, -112, -100, -99, -87, -86, -64, -32, -31, -28, -24,
                       -21,  -20,  -19,  -18,  -17,  -16, -15, -8,  -1,  0,   1,   5,   100}),
      (std::vector<double>{31, 31, 31, 30, 30, 30, 29, 28, 26, 21, 21, 20, 19, 18, 17, 17, 16, 16, 16, 15, 8, 1, 0, 0, 0, 0}));
}

TEST(EncodingCases, bia_t5_last_bucket) {
  const std::vector<int64_t> far = {-1048576, -1000, -200, 200, 1000, 1048576, -(int64_t{1} << 40), int64_t{1} << 40};
  EXPECT_EQ(buckets(":bidirectional=1", 32, far), (std::vector<double>{15, 15, 15, 31, 31, 31, 15, 31}));
  EXPECT_EQ(buckets("", 32, far), (std::vector<double>{31, 31, 31, 0, 0, 0, 31, 0}));
}

TEST(EncodingCases, bia_t5_other_sizes) {
  const std::vector<int64_t> r = {-70, -64, -50, -33, -20, -10, -5, -4, -3, 0, 3, 4, 5, 10, 20, 33, 50, 64, 70};
  EXPECT_EQ(buckets(":max=64:bidirectional=1", 16, r),
            (std::vector<double>{7, 7, 7, 7, 6, 5, 4, 4, 3, 0, 11, 12, 12, 13, 14, 15, 15, 15, 15}));
  EXPECT_EQ(buckets(":max=64", 16, r), (std::vector<double>{15, 15, 15, 13, 11, 8, 5, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(buckets(":max=50:bidirectional=1", 12, r),
            (std::vector<double>{5, 5, 5, 5, 5, 4, 3, 3, 3, 0, 9, 9, 9, 10, 11, 11, 11, 11, 11}));
}

// The rows of decode steps 5 and 20.
TEST(EncodingCases, bia_t5_decode_row) {
  EXPECT_EQ(buckets("", 32, {-5, -4, -3, -2, -1, 0}), (std::vector<double>{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(buckets("", 32, {-20, -19, -18, -17, -16, -15, -14}), (std::vector<double>{17, 17, 16, 16, 16, 15, 14}));
}

TEST(EncodingCases, bia_t5_unscaled_and_shared) {
  Matrix rows(32, {0});
  rows[0] = {0.5};
  rows[1] = {-1};
  rows[17] = {2};
  const PositionEncoding encoding = make("t5:bidirectional=1", {1, 4, 4, 1024, 0}, {table("table", {32, 1}, rows)});
  const Matrix q = {{1, 2, 0, 1}, {0, 1, 1, -1}}, k = {{2, 0, 1, 1}, {1, 1, -1, 0}};
  for (int layer = 0; layer < 2; ++layer) expect_near(scores(encoding, q, k, 1), {{3.5, 5}, {-1, 0.5}}, 1e-12, "layer");
}

// ---- content-bearing

TEST(EncodingCases, bia_shaw_both_sides) {
  const Matrix q = {{1, 0}, {0, 1}, {1, 1}, {2, -1}}, k = {{1, 1}, {0, 2}, {-1, 1}, {1, 0}};
  const Matrix key = {{0.5, -0.5}, {1, 0}, {0, 0.25}, {-1, 0.5}, {0.25, 1}},
               value = {{1, 0}, {0, -1}, {0.5, 0.5}, {0, 2}, {-0.5, 0}};
  const PositionEncoding encoding =
      make("shaw:reach=2", {1, 2, 2, 1024, 0}, {table("key", {5, 2}, key), table("value", {5, 2}, value)});
  const double scale = 1 / std::sqrt(2.0);
  const Matrix got = scores(encoding, q, k, scale);
  expect_near(got,
              {{0.7071067811865476, -0.7071067811865476, -0.5303300858899106, 0.8838834764831844},
               {0.7071067811865476, 1.590990257669732, 1.0606601717798212, 0.7071067811865476},
               {1.4142135623730951, 2.1213203435596424, 0.1767766952966369, 0.3535533905932738},
               {1.7677669529663689, -0.3535533905932738, -0.7071067811865476, 1.2374368670764582}},
              1e-12, "scores");
  // The value side: sum of a_mn aV[r] on top of sum of a_mn v_n.
  const Matrix v = {{1, 0}, {0, 1}, {1, 1}, {-1, 2}};
  const Matrix out = {{-0.05317354311688064, 1.4326246955860849},
                      {0.3651802505016625, 1.5233006875819317},
                      {0.5700588972808232, 0.49668833001238694},
                      {1.065487704715841, 0.8875524013359315}};
  const std::vector<int64_t> n = {0, 1, 2, 3};
  for (size_t m = 0; m < 4; ++m) {
    std::vector<float> weights;
    double sum = 0;
    for (const double s : got[m]) sum += std::exp(s);
    std::vector<float> row(2, 0.0F);
    for (size_t j = 0; j < 4; ++j) {
      weights.push_back(static_cast<float>(std::exp(got[m][j]) / sum));
      for (size_t c = 0; c < 2; ++c) row[c] += weights[j] * static_cast<float>(v[j][c]);
    }
    ScoreTile tile;
    tile.q_pos = std::span(n).subspan(m, 1);
    tile.k_pos = n;
    encoding.value->add(tile, weights.data(), 4, row.data(), 2);
    for (size_t c = 0; c < 2; ++c) EXPECT_NEAR(static_cast<double>(row[c]), out[m][c], 1e-6) << m << c;
  }
}

TEST(EncodingCases, bia_relative_key_longer_than_table) {
  const Matrix q = {{1, 0}, {0, 1}, {1, 1}, {2, -1}, {1, 3}}, k = {{1, 1}, {0, 2}, {-1, 1}, {1, 0}, {2, 1}};
  const auto rows = table("key", {5, 2}, {{0.5, 0}, {0, 1}, {1, -1}, {0.25, 0.5}, {-0.5, 2}});
  const double scale = 1 / std::sqrt(2.0);
  const PositionEncoding key = make("shaw:reach=2:value=0:bert=1", {1, 2, 2, 1024, 0}, {rows});
  expect_near(scores(key, q, k, scale)[0], {1.4142135623730951, 0, -0.3535533905932738, 1.0606601717798212, 1.7677669529663689},
              1e-12, "key");
  expect_near(scores(key, q, k, scale)[4],
              {6.7175144212722016, 8.131727983645296, 5.303300858899107, 1.9445436482630056, 2.1213203435596424}, 1e-12,
              "key, last");
  const PositionEncoding both = make("shaw:reach=2:value=0:bert=1:query=1", {1, 2, 2, 1024, 0}, {rows});
  expect_near(scores(both, q, k, scale)[3],
              {-0.3535533905932738, -0.7071067811865476, -1.9445436482630056, 4.242640687119285, 2.1213203435596424}, 1e-12,
              "key and query");
}

PositionEncoding small_xl() {
  return make("xl", {1, 2, 4, 1024, 0},
              {table("wr", {4, 1, 2}, {{1, 0}, {0, 1}, {1, -1}, {0.5, 2}}), table("u", {1, 2}, {{0.5, -0.25}}),
               table("v", {1, 2}, {{1, 0.5}})});
}

// r_d is held as a float: 6e-8 of scores of size 9.
TEST(EncodingCases, bia_xl_scores_with_memory) {
  expect_near(scores(small_xl(), {{1, 2}, {0, -1}}, {{1, 0}, {2, 1}, {0, 1}, {-1, 1}}, 1 / std::sqrt(2.0), 2),
              {{6.770876219423183, 8.61785710926583, 5.126524163602469, kHidden},
               {-0.9607046205501658, -0.3357499724993591, -0.07286768845038365, -0.5303300858899106}},
              2e-6, "memory");
}

TEST(EncodingCases, bia_xl_both_directions) {
  expect_near(scores(small_xl(), {{1, 2}, {0, -1}, {1, 1}}, {{1, 0}, {2, 1}, {0, 1}}, 1 / std::sqrt(2.0)),
              {{4.949747468305833, 6.202463001341663, 4.305065444056421},
               {1.1645691786260746, 0.5303300858899106, -1.255816417547831},
               {5.048544047409239, 6.871587950203817, 3.7123106012293743}},
              2e-6, "both directions");
}

// r = key - query - memory: query 0 stands behind the memory, at position 4.
TEST(EncodingCases, bia_memory_offset) {
  const PositionEncoding encoding = make("expr:n-m", {1, 2, 2, 1024, 0});
  const Matrix want = {{-4, -3, -2, -1, 0, 1, 2}, {-5, -4, -3, -2, -1, 0, 1}, {-6, -5, -4, -3, -2, -1, 0}};
  expect_near(scores(encoding, Matrix(3, {0, 0}), Matrix(7, {0, 0}), 1, 4), want, 0, "memory");
}

// What the causal shift trick leaves in its valid triangle, looked up by distance: with q = 1 and one dim, r_d the number in
// column K - 1 - d of the query's row of [[1, 2, 3], [4, 5, 6], [7, 8, 9]].
TEST(EncodingCases, bia_xl_shift_trick) {
  const Matrix columns = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, valid = {{3, kHidden, kHidden}, {5, 6, kHidden}, {7, 8, 9}};
  const PositionEncoding encoding = make("shaw:reach=2:value=0", {1, 3, 3, 1024, 0},
                                         {table("key", {5, 3}, {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 0}, {0, 0, 0}})});
  // aK[n - m] is the unit vector of column 2 - d, so q . aK picks the column.
  expect_near(scores(encoding, columns, Matrix(3, {0, 0, 0}), 1), valid, 0, "shift");
}

TEST(EncodingCases, bia_xl_segment_term) {
  const PositionEncoding encoding =
      make("xlnet", {1, 2, 2, 1024, 0},
           {table("wr", {2, 1, 2}, {{0, 0}, {0, 0}}), table("u", {1, 2}, {{0, 0}}), table("v", {1, 2}, {{0, 0}}),
            table("s", {1, 2}, {{0.5, 1}}), table("segment", {2, 1, 2}, {{1, -1}, {0.5, 2}})});
  const std::vector<float> q = {1, 2, 0, -1}, k(6, 0.0F);
  const std::vector<int64_t> m = {0, 1}, n = {0, 1, 2};
  const std::vector<int32_t> of_q = {0, 1}, of_k = {0, 0, 1};
  ASSERT_TRUE(encoding.score->prepare(-2, 1));
  ScoreTile tile;
  tile.q_pos = m;
  tile.k_pos = n;
  tile.q = q.data();
  tile.k = k.data();
  tile.q_stride = tile.k_stride = 2;
  tile.q_type = of_q;
  tile.k_type = of_k;
  std::vector<double> term(6);
  encoding.score->add(tile, term.data(), 3);
  // The second query is of segment 1, the first two keys are not: seg[1] there, seg[0] with the third.
  expect_near(Matrix{{term[0], term[1], term[2]}, {term[3], term[4], term[5]}}, {{-1.5, -1.5, 6.75}, {0.25, 0.25, 0.5}}, 1e-12,
              "segments");
}

// One score by attention itself: the softmax of two keys, one of them with score 0, tells the other's.
double score_of(const RotarySchedule& schedule, const std::vector<float>& q, const std::vector<float>& k, int64_t m,
                int64_t n) {
  const int dim = static_cast<int>(q.size());
  std::vector<float> keys(q.size(), 0.0F), out(1);
  keys.insert(keys.end(), k.begin(), k.end());
  const std::vector<float> values = {0, 1};
  const std::vector<int64_t> at_q = {m}, at_k = {n, n};
  AttentionInputs in;
  in.q = heads_view(q.data(), 1, 1, dim);
  in.k = heads_view(static_cast<const float*>(keys.data()), 2, 1, dim);
  in.v = heads_view(values.data(), 2, 1, 1);
  in.q_pos = at_q;
  in.k_pos = at_k;
  in.rotary = &schedule;
  AttentionOptions options;
  options.causal = false;
  options.scale = 1;
  double score[2] = {};
  for (const bool reference : {false, true}) {
    const auto done = reference ? attention_reference(in, options, heads_view(out.data(), 1, 1, 1))
                                : attention(in, options, heads_view(out.data(), 1, 1, 1));
    EXPECT_TRUE(done);
    const auto share = static_cast<double>(out[0]);
    score[reference ? 1 : 0] = std::log(share / (1 - share));
  }
  EXPECT_NEAR(score[0], score[1], 1e-4 * (1 + std::abs(score[1])));
  return score[1];
}

TEST(EncodingCases, bia_xpos) {
  const PositionEncoding encoding = make("xpos", {1, 8, 8, 1024, 0});
  const RotarySchedule& schedule = *encoding.rotary;
  const double zeta[] = {0.2857142857142857, 0.4642857142857143, 0.6428571428571429, 0.8214285714285714};
  const double at_1024[] = {12.25, 4.6390532544378695, 2.419753086419753, 1.4820415879017013};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(std::exp(512 * schedule.decay[i]), zeta[i], 1e-14);
    EXPECT_NEAR(std::exp(-1024 * schedule.decay[i]), at_1024[i], 1e-12);
  }
  const std::vector<float> q = {1, 2, 0, 1, -1, 1, 2, 0}, k = {2, 0, 1, 1, 1, -1, 0, 1};
  // A float holds the share of a weight to 6e-8, so the score to 1e-6 near 0, and less well far from it.
  EXPECT_NEAR(score_of(schedule, q, k, 600, 88), -0.46285435900666183, 1e-6);
  EXPECT_NEAR(score_of(schedule, q, k, 1112, 600), -0.46285435900666183, 1e-6);
  EXPECT_NEAR(score_of(schedule, q, k, 5, 3), -5.660761023677985, 1e-4);
  EXPECT_NEAR(score_of(schedule, q, k, 1000600, 1000088), -0.46285435900666183, 1e-6);
}

// In some models the bias goes in before the scale: that is the slope times the scale, behind it.
TEST(EncodingCases, bia_alibi_inside_scale) {
  const Matrix q = {{16}}, k = {{1}, {0.5}, {0}, {-0.5}};
  const double scale = 1 / std::sqrt(64.0);
  for (const bool before : {true, false}) {
    const PositionEncoding encoding = make("alibi:scale=" + std::to_string(before ? scale : 1.0), {8, 1, 8, 1024, 0});
    const Matrix want = {before ? std::vector<double>{1.8125, 0.875, -0.0625, -1.0} : std::vector<double>{0.5, 0, -0.5, -1}};
    expect_near(scores(encoding, q, k, scale, 3), want, 1e-12, "before the scale");
  }
}

// With kr = row number in one dim and q = 1 the term is the row of the distance.
TEST(EncodingCases, bia_deberta_buckets) {
  Matrix rows;
  for (int i = 0; i < 512; ++i) rows.push_back({static_cast<double>(i)});
  const PositionEncoding encoding =
      make("deberta:span=256:max=512:p2c=0", {1, 1, 1, 1024, 0}, {table("kr", {512, 1, 1}, rows)});
  const std::vector<int64_t> r = {0,  1,    127,  128,  129,  130,  200,  256,  300,  511,  512,  1000,
                                  -1, -127, -128, -129, -130, -200, -256, -300, -511, -512, -1000};
  const std::vector<double> want = {256, 257, 383, 384, 385, 386, 425, 448, 463, 511, 511, 511,
                                    255, 129, 128, 127, 126, 87,  64,  49,  1,   0,   0};
  const float one = 1;
  for (size_t i = 0; i < r.size(); ++i) {
    const int64_t zero = 0;
    ScoreTile tile;
    tile.q_pos = {&r[i], 1};
    tile.k_pos = {&zero, 1};
    tile.q = tile.k = &one;
    double score = 0;
    encoding.score->add(tile, &score, 1);
    EXPECT_EQ(score, want[i]) << r[i];
  }
}

TEST(EncodingCases, bia_deberta_three_terms) {
  const Matrix q = {{1, 0}, {2, 1}, {0, -1}}, k = {{1, 1}, {0, 1}, {2, -1}};
  const std::vector<EncodingWeight> weights = {table("kr", {4, 1, 2}, {{1, 0}, {0, 1}, {1, 1}, {-1, 2}}),
                                               table("qr", {4, 1, 2}, {{0, 1}, {1, -1}, {2, 0}, {1, 3}})};
  const double scale = 1 / std::sqrt(6.0);
  expect_near(scores(make("deberta:span=2", {1, 2, 2, 1024, 0}, weights), q, k, scale),
              {{1.632993161855452, -0.408248290463863, 0.816496580927726},
               {2.857738033247041, 1.632993161855452, 2.857738033247041},
               {0.408248290463863, 0, 1.632993161855452}},
              1e-12, "as trained");
  expect_near(scores(make("deberta:span=2:paper=1", {1, 2, 2, 1024, 0}, weights), q, k, scale)[0],
              {1.632993161855452, 1.224744871391589, 0.816496580927726}, 1e-12, "as printed");
}

// ---- absolute

std::vector<double> vector_at(const PositionEncoding& encoding, int64_t position, int64_t width) {
  std::vector<float> x(static_cast<size_t>(width), 0.0F);
  EXPECT_TRUE(encoding.input->apply({&position, 1}, x.data(), width));
  return {x.begin(), x.end()};
}

TEST(EncodingCases, abs_sinusoid_layouts) {
  const EncodingContext eight = {1, 8, 8, 1024, 0};
  expect_near(vector_at(make("sinusoidal", eight), 77, 8),
              {0.9995201585807313, -0.03097503173121646, 0.9881682338770004, 0.15337386203786452, 0.6961352386273567,
               0.7179106696109434, 0.07692393372001734, 0.9970369644205967},
              1e-7, "interleaved");
  expect_near(vector_at(make("sinusoidal:halves=1", eight), 77, 8),
              {0.9995201585807313, 0.9881682338770004, 0.6961352386273567, 0.07692393372001734, -0.03097503173121646,
               0.15337386203786452, 0.7179106696109434, 0.9970369644205967},
              1e-7, "halves");
  expect_near(vector_at(make("sinusoidal:halves=1:fairseq=1", eight), 77, 8),
              {0.9995201585807313, -0.41907903564924825, 0.1651316290949553, 0.007699923911392232, -0.03097503173121646,
               -0.9079497573540598, 0.9862715371906695, 0.9999703551464707},
              1e-7, "fairseq");
}

TEST(EncodingCases, abs_sinusoid_odd_width) {
  const PositionEncoding five = make("sinusoidal", {1, 5, 5, 1024, 0});
  expect_near(vector_at(five, 0, 5), {0, 1, 0, 1, 0}, 1e-7, "0");
  expect_near(vector_at(five, 3, 5),
              {0.1411200080598672, -0.9899924966004454, 0.07528529299888896, 0.997162035307237, 0.001892870903091888}, 1e-7,
              "3");
  // 29 wide: 15 sines and 14 cosines. At 0 the sines are 0 and the cosines 1.
  const auto zero = vector_at(make("sinusoidal", {1, 29, 29, 1024, 0}), 0, 29);
  EXPECT_EQ(std::count(zero.begin(), zero.end(), 0.0), 15);
  EXPECT_EQ(std::count(zero.begin(), zero.end(), 1.0), 14);
}

TEST(EncodingCases, abs_sinusoid_relative_product) {
  const PositionEncoding encoding = make("sinusoidal", {1, 8, 8, 1024, 0});
  for (const int64_t m : {3, 103, 1000001}) {
    const auto a = vector_at(encoding, m, 8), b = vector_at(encoding, m + 2, 8);
    double dot = 0;
    for (size_t i = 0; i < 8; ++i) dot += a[i] * b[i];
    EXPECT_NEAR(dot, 2.5637177479613436, 1e-6) << m;
  }
}

TEST(EncodingCases, abs_table_end) {
  const PositionEncoding encoding = make("learned:rows=1024", {1, 4, 4, 1024, 0});
  std::vector<float> x(4);
  int64_t position = 1023;
  EXPECT_TRUE(encoding.input->apply({&position, 1}, x.data(), 4));
  for (position = 1024; position >= -1; position -= 1025) {
    const auto done = encoding.input->apply({&position, 1}, x.data(), 4);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message(), testing::AllOf(HasSubstr(std::to_string(position)), HasSubstr("1024 rows")));
  }
}

// 514 rows hold 512 tokens behind padding_idx + 1 = 2; a 513th is an error that names both numbers.
TEST(EncodingCases, abs_padding_aware_offset) {
  const uint8_t mask[] = {0, 0, 1, 1, 1};
  EXPECT_THAT(positions_from_mask(mask), testing::ElementsAre(0, 0, 0, 1, 2));  // rows 2, 3, 4 under the offset
  const PositionEncoding encoding = make("learned:rows=514:offset=2", {1, 4, 4, 1024, 0});
  std::vector<float> x(4);
  int64_t position = 511;
  EXPECT_TRUE(encoding.input->apply({&position, 1}, x.data(), 4));
  position = 512;
  EXPECT_THAT(encoding.input->apply({&position, 1}, x.data(), 4).error().message(),
              testing::AllOf(HasSubstr("511"), HasSubstr("512")));
}

// OPT's ids: real tokens up to and including this one, - 1 + 2. The offset is the encoding's, the count is the caller's.
TEST(EncodingCases, abs_offset_two_left_padding) {
  std::vector<float> rows;
  for (int i = 0; i < 10; ++i) rows.push_back(static_cast<float>(i));
  const PositionEncoding encoding = make("learned:rows=10:offset=2", {1, 1, 1, 8, 0}, {{"table", {10, 1}, rows}});
  const std::pair<std::vector<uint8_t>, std::vector<float>> cases[] = {{{0, 0, 1, 1}, {2, 2, 2, 3}},
                                                                       {{1, 1, 1, 1}, {2, 3, 4, 5}}};
  for (const auto& [mask, ids] : cases) {
    std::vector<float> x(4, 0.0F);
    ASSERT_TRUE(encoding.input->apply(positions_from_mask(mask), x.data(), 1));
    EXPECT_EQ(x, ids);  // the row of a pad does not matter: it stands at 0
    EXPECT_EQ(padding_segments(mask)[0], mask[0] != 0 ? 0 : -1);
  }
}

// The keys that query m sees, of keys at 0, 1, ...: those with a weight.
std::vector<int64_t> seen(const Reach& reach, int64_t m, const std::vector<int64_t>& k_pos,
                          const std::vector<int32_t>& segments = {}, const PairMap* pairs = nullptr) {
  std::vector<int64_t> list;
  const std::vector<float> q = {0, 0};
  const std::vector<float> k(2 * k_pos.size(), 0.0F);
  const std::vector<int64_t> at = {m};
  const std::vector<int32_t> segment = {0};
  for (size_t j = 0; j < k_pos.size(); ++j) {
    std::vector<float> v(k_pos.size(), 0.0F), out(1);
    v[j] = 1;
    AttentionInputs in;
    in.q = heads_view(q.data(), 1, 1, 2);
    in.k = heads_view(k.data(), static_cast<int64_t>(k_pos.size()), 1, 2);
    in.v = heads_view(static_cast<const float*>(v.data()), static_cast<int64_t>(k_pos.size()), 1, 1);
    in.q_pos = at;
    in.k_pos = k_pos;
    in.q_index = static_cast<int64_t>(std::find(k_pos.begin(), k_pos.end(), m) - k_pos.begin());
    for (size_t i = 0; i < k_pos.size(); ++i) {
      if (k_pos[i] == m) in.q_index = static_cast<int64_t>(i);
    }
    if (!segments.empty()) {
      in.q_segment = segment;
      in.k_segment = segments;
    }
    in.pairs = pairs;
    AttentionOptions options;
    options.reach = reach;
    float expected = 0;
    EXPECT_TRUE(attention_reference(in, options, heads_view(&expected, 1, 1, 1)));
    EXPECT_TRUE(attention(in, options, heads_view(out.data(), 1, 1, 1)));
    EXPECT_NEAR(out[0], expected, 1e-6);
    if (expected > 0) list.push_back(static_cast<int64_t>(j));
  }
  return list;
}
std::vector<int64_t> count_to(int64_t count) {
  std::vector<int64_t> list;
  for (int64_t i = 0; i < count; ++i) list.push_back(i);
  return list;
}

TEST(EncodingCases, lyr_window_edge) {
  const std::pair<int64_t, std::vector<int64_t>> cases[] = {
      {10, {7, 8, 9, 10}}, {2, {0, 1, 2}}, {3, {0, 1, 2, 3}}, {4, {1, 2, 3, 4}}};
  for (const auto& [m, keys] : cases) EXPECT_EQ(seen({4, 0, 0}, m, count_to(12)), keys) << m;
}

TEST(EncodingCases, lyr_chunked_attention) {
  const std::pair<int64_t, std::vector<int64_t>> cases[] = {{3, {0, 1, 2, 3}}, {4, {4}}, {6, {4, 5, 6}}};
  for (const auto& [m, keys] : cases) EXPECT_EQ(seen({0, 0, 4}, m, count_to(9)), keys) << m;
  // Two pads in front move the rows, not the chunks: position 4 is row 6.
  EXPECT_EQ(seen({0, 0, 4}, 4, {0, 0, 0, 1, 2, 3, 4, 5}, {-1, -1, 0, 0, 0, 0, 0, 0}), std::vector<int64_t>{6});
}

TEST(EncodingCases, lyr_sink_window) {
  const PositionEncoding encoding = make("sinks:keep=2:window=3", {1, 2, 2, 1024, 0});
  EXPECT_EQ(seen(encoding.reach, 9, count_to(12), {}, encoding.pairs.get()), (std::vector<int64_t>{0, 1, 7, 8, 9}));
  // Places in the cache: keys 0 1 2 3 4, the query at 4. Distances are what a rotation sees.
  const int64_t m = 9;
  const std::pair<int64_t, double> distances[] = {{0, 4}, {1, 3}, {7, 2}, {8, 1}, {9, 0}};
  for (const auto& [n, want] : distances) {
    const uint64_t side = encoding.pairs->choose({m, m}, {n, n}).at(m, n);
    double query = 0, key = 0;
    encoding.pairs->query_positions(side, {&m, 1}, {&query, 1});
    encoding.pairs->key_positions(side, {&n, 1}, {&key, 1});
    EXPECT_EQ(query - key, want) << n;
  }
}

TEST(EncodingCases, abs_hierarchical_extension) {
  const PositionEncoding encoding =
      make("learned:rows=4:hierarchical=1", {1, 2, 2, 1024, 0}, {table("table", {4, 2}, {{1, 0}, {0, 2}, {3, -1}, {2, 2}})});
  const std::pair<int64_t, std::vector<double>> want[] = {
      {0, {1, 0}}, {3, {2, 2}}, {4, {1 / 3., 4 / 3.}}, {5, {-2 / 3., 10 / 3.}}, {15, {8 / 3., 10 / 3.}}};
  for (const auto& [position, row] : want) expect_near(vector_at(encoding, position, 2), row, 1e-6, std::to_string(position));
}

}  // namespace
}  // namespace ropewalk
