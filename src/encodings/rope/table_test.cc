// Tables and applied rotations against the cases of precision, positions and layouts.
//
// Tolerance of exact tables: 1 float32 ulp of the true value (the claim), so absolute 6e-8 for values of order 1. Applied f32
// rotations: table entries are off by u = 2^-24 relative, products and sum add u each: |error| <= 3 u (|x0 c| + |x1 s|) + u
// |y|, below 4 u * 2 max|x| = 5e-7 max|x|.
#include "encodings/rope/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "encodings/rope/rules.h"

namespace ropewalk {
namespace {

using testing::HasSubstr;

RotarySchedule plain(double theta, int width, Pairing pairing = Pairing::kHalves) {
  return make_rotary_schedule(theta, width, width, pairing).value();
}
RotaryTable table(const RotarySchedule& s, std::vector<int64_t> positions, Profile profile = Profile::kExact) {
  return make_rotary_table(s, positions, profile).value();
}

double ulp(double x) {
  const float a = std::abs(static_cast<float>(x));
  return static_cast<double>(std::nextafter(a, std::numeric_limits<float>::infinity()) - a);
}
void expect_one_ulp(float got, double want) {
  EXPECT_LE(std::abs(static_cast<double>(got) - want), ulp(want)) << got << " " << want;
}

// rows[t][j]: plane planes[j] at position t.
using Rows = std::vector<std::vector<double>>;
void expect_table(const RotaryTable& t, const std::vector<int>& planes, const Rows& cos, const Rows& sin,
                  double tolerance = 6e-8) {
  for (size_t r = 0; r < cos.size(); ++r) {
    for (size_t j = 0; j < planes.size(); ++j) {
      const size_t at = r * static_cast<size_t>(t.planes) + static_cast<size_t>(planes[j]);
      EXPECT_NEAR(static_cast<double>(t.cos[at]), cos[r][j], tolerance) << "row " << r << " plane " << planes[j];
      EXPECT_NEAR(static_cast<double>(t.sin[at]), sin[r][j], tolerance) << "row " << r << " plane " << planes[j];
    }
  }
}

TEST(Table, pre_half_angle) {
  expect_table(table(plain(10000, 32), {1857}), {1}, {{0.3066928098187106}}, {{0.9518085523914482}});
}

TEST(Table, pre_bf16_frequencies) {
  expect_table(table(plain(10000, 128), {512, 4095}), {1, 7, 15, 31, 48, 63},
               {{-0.9174515896591988, 0.04437568884910096, -0.8443621500055905, 0.9320734264926767, 0.8717664083144548,
                 0.9982526359059007},
                {-0.7423658176100362, 0.9999494790715786, -0.07346212876717302, -0.9865114147420404, -0.5789081297568102,
                 0.8902588121830826}},
               {{-0.3978474338635466, -0.9990149139222937, 0.5357728619834499, -0.3622694130425599, 0.48992175838037155,
                 0.05909039606332909},
                {0.669994770758834, -0.010051830901812124, 0.9972980074365912, -0.1636924817566708, -0.815392774864649,
                 0.4554549893571998}});
}

TEST(Table, pre_narrow_positions) {
  expect_table(table(plain(10000, 128), {257, 4095, 15962, 70000, 16777217, 16777219}), {0, 1},
               {{0.8193055291449822, -0.8774639724785857},
                {-0.0659759965580649, -0.7423658176100362},
                {-0.908015901251032, 0.8846067232259647},
                {0.567353975458812, -0.8904859884894027},
                {0.9943839639136522, 0.9777054962715214},
                {-0.5100430220593513, -0.3641199442799043}},
               {{-0.5733571748155426, 0.47964255128387},
                {-0.9978212103769744, 0.669994770758834},
                {0.41893570279372955, -0.4663378016239104},
                {-0.8234740229849887, -0.4550106639454192},
                {0.10583256734754364, 0.20998086236716446},
                {0.8601488915580628, 0.9313520634956468}});
}

TEST(Table, pre_large_positions) {
  const std::vector<int> planes = {0, 1, 9, 16, 31, 63};
  const auto base_1e4 = plain(10000, 128), base_5e5 = plain(500000, 128);
  EXPECT_EQ(base_1e4.inv_freq[1], 0.8659643233600653);
  EXPECT_EQ(base_1e4.inv_freq[9], 0.27384196342643613);
  expect_table(
      table(base_1e4, {1048575, 1048576, 268435457}), planes,
      {{0.7880422395289275, 0.12116824886611662, -0.6422770827235065, -0.8461904408088537, 0.4913919955523945,
        -0.1358137694546652},
       {0.943808393901312, -0.6776024202677361, -0.8256240834539355, -0.7887637218831903, 0.481302014223449,
        -0.13592817677070615},
       {0.740399879131252, -0.9838793502484974, -0.7366331475985676, 0.9972844176479996, -0.9640003069510986,
        -0.9399656879708398}},
      {{-0.6156211730587509, 0.9926319839027548, 0.7664725363691657, -0.5328806037788557, 0.8709385206241802,
        0.9907343841951358},
       {0.3304931400217347, 0.735428419390566, 0.564220588795596, -0.6146965031956642, 0.8765548306320894, 0.9907186940599192},
       {-0.6721666601241298, 0.17883350959648067, -0.6762925445833534, -0.07364638698870624, -0.2659011248531825,
        -0.3412689634840912}});
  expect_table(table(base_5e5, {1048575, 1048576, 268435457}), planes,
               {{0.7880422395289275, 0.7039513806269556, -0.914431415537067, 0.8642672091043063, -0.17683714700225883,
                 -0.8434121894459433},
                {0.943808393901312, -0.03366522071060197, -0.9667175729923309, 0.88256876770184, -0.17512819455661457,
                 -0.8434135085096417},
                {0.740399879131252, -0.9999523273946365, -0.9948453521055871, 0.9250242854522063, 0.470290844716711,
                 0.7727607000211881}},
               {{-0.6156211730587509, 0.7102481634706302, 0.4047408878268613, -0.503032992225215, -0.9842401248882823,
                 0.5372670459780687},
                {0.3304931400217347, 0.9994331658067519, 0.25584591860691736, -0.4701833368774947, -0.9845456391002606,
                 0.5372649752807794},
                {-0.6721666601241298, -0.009764370847611363, 0.10140377406147327, 0.3799079774414262, -0.8825114851239287,
                 -0.6346974873928234}});
  expect_table(table(base_1e4, {2147483647, 2147483648, -2147483648}), planes,
               {{-0.6888366918779438, -0.9814920223716952, -0.9442216599049136, 0.08100249244477069, -0.46034334517940584,
                 -0.9371242803763261},
                {0.23781619457280337, -0.49004267959409026, -0.819982834837983, 0.18010317132487821, -0.4705638964214526,
                 -0.9371645755365512},
                {0.23781619457280337, -0.49004267959409026, -0.819982834837983, 0.18010317132487821, -0.4705638964214526,
                 -0.9371645755365512}},
               {{-0.7249165551445564, -0.19150302875077396, -0.32931057827893967, -0.9967138988785773, 0.887740955768649,
                 0.3489958210769191},
                {-0.9713101757929392, -0.8716984410770985, -0.5723881118358987, -0.9836477253970151, 0.8823659214773996,
                 0.3488876013265532},
                {0.9713101757929392, 0.8716984410770985, 0.5723881118358987, 0.9836477253970151, -0.8823659214773996,
                 -0.3488876013265532}});
}

// One float32 step of the small value itself.
TEST(Table, pre_beside_zeros) {
  const auto s = plain(10000, 128);
  EXPECT_EQ(s.inv_freq[3], 0.6493816315762113);
  const auto t = table(s, {143552213, 595350503, 2011950654, 714951546, 1611453211, 225899145, 1190701006, 1416600151});
  const double cos[] = {-5.4874967469824055e-09, -8.734891111504208e-10, -3.1346351553526993e-10, 1.0020252813403388e-09,
                        6.14314782168061e-11};
  const size_t cos_plane[] = {1, 1, 1, 3, 3};
  for (size_t i = 0; i < 5; ++i) expect_one_ulp(t.cos[i * 64 + cos_plane[i]], cos[i]);
  const double sin[] = {2.3070038179159925e-09, -1.7469782223008416e-09, -5.600255956151509e-10};
  for (size_t i = 0; i < 3; ++i) expect_one_ulp(t.sin[(5 + i) * 64 + 1], sin[i]);
}

// Float32 numbers are met exactly in the angle; their cos and sin to one float32 step, 1.5e-7 as the case asks.
TEST(Table, pre_profile_hf) {
  expect_table(table(plain(10000, 128), {1048575}, Profile::kHf), {1, 7, 10, 20, 31, 40, 63},
               {{0.09917072087913677, -0.8515651137824892, 0.7343880938351534, -0.40793078601411303, 0.4916647014855645,
                 -0.06550088935636489, -0.13580915527744028}},
               {{0.995070433748442, 0.5242488502501615, -0.678729789852464, -0.9130128552336533, 0.87078460098529,
                 -0.9978525108920282, 0.990735016713767}});
}
TEST(Table, pre_profile_ggml) {
  expect_table(table(plain(10000, 128), {1048575}, Profile::kGgml), {1, 7, 10, 20, 31, 40, 63},
               {{0.09917072087913677, -0.8969019910854379, 0.8040879152597895, -0.36106091635900417, 0.47885677489763767,
                 -0.06062780117399156, -0.13609638048201086}},
               {{0.995070433748442, 0.4422293730486218, -0.5945104074220783, -0.9325422321149838, 0.8778930396891372,
                 -0.9981604428771994, 0.9906956016959476}});
}

// The same angle as the exact profile's when a rule has changed the base: ratios near 1 are rounding, others are applied in
// float32.
TEST(Table, RoundedProfilesFollowRules) {
  const auto ntk = scale_ntk(plain(10000, 128), 4).value();
  const auto direct = plain(ntk.theta, 128);
  for (const auto profile : {Profile::kHf, Profile::kGgml}) {
    const auto a = table(ntk, {123457}, profile), b = table(direct, {123457}, profile);
    EXPECT_EQ(a.cos, b.cos);
  }
  const auto linear = scale_linear(plain(10000, 128), 4).value();
  EXPECT_EQ(table(linear, {400000}, Profile::kHf).cos,
            table(plain(10000, 128), {100000}, Profile::kHf).cos);  // exact: 4 is a power of 2
  auto scaled = plain(10000, 128);
  scaled.amplitude = 1.1;
  const auto t = table(scaled, {777}, Profile::kHf), one = table(plain(10000, 128), {777}, Profile::kHf);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(t.cos[i], one.cos[i] * 1.1F);
  auto unknown = plain(10000, 128);
  unknown.theta = 0;
  EXPECT_FALSE(make_rotary_table(unknown, std::vector<int64_t>{1}, Profile::kGgml));
}

// pre-bf16-table: each entry is the true value rounded once.
TEST(Table, pre_bf16_table) {
  const auto t = table(plain(10000, 128), {2046}, Profile::kVllmBf16);
  const size_t planes[] = {0, 1, 5, 17, 40, 63};
  const float cos[] = {-0.6796875F, 0.99609375F, -0.8984375F, 0.318359375F, 0.984375F, 0.97265625F};
  const float sin[] = {-0.734375F, -0.09521484375F, -0.435546875F, 0.94921875F, 0.185546875F, 0.234375F};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(t.cos[planes[i]], cos[i]);
    EXPECT_EQ(t.sin[planes[i]], sin[i]);
  }
}

std::vector<float> apply(const RotarySchedule& s, std::vector<int64_t> positions, std::vector<float> x, int heads = 1) {
  const auto tokens = static_cast<int64_t>(positions.size());
  const int dim = static_cast<int>(static_cast<int64_t>(x.size()) / tokens / heads);
  const auto t = table(s, positions);
  rotate(s, t, heads_view(x.data(), tokens, heads, dim), heads_view(x.data(), tokens, heads, dim)).value();
  return x;
}
void expect_near(const std::vector<float>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(static_cast<double>(got[i]), want[i], tolerance) << i;
}

// pre-bf16-activations: f32 arithmetic, one rounding; equal to the expected bits, which the case allows one step around.
TEST(Rotate, pre_bf16_activations) {
  std::vector<bf16_t> x;
  for (const float v : {1.5F, -0.34375F, 2.015625F, 0.00592041015625F, -3.0F, 0.875F, 0.125F, -1.0078125F})
    x.push_back(to_bf16(v));
  const auto s = plain(10000, 8);
  rotate(s, table(s, {3001}), heads_view(x.data(), 1, 1, 8), heads_view(x.data(), 1, 1, 8)).value();
  const float want[] = {-3.171875F, 0.84375F, 0.455078125F, 0.1357421875F, 1.078125F, 0.41015625F, -1.96875F, 1.0F};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(to_f32(x[i]), want[i]);
}

TEST(Table, pre_half_table_from_caller) {
  const std::vector<f16_t> half(8 * 4);
  CallerTable t{half.data(), half.data(), DType::kF16, 8, 4};
  const auto r = rows_of_table(t, std::vector<int64_t>{1});
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().message(), HasSubstr("f16"));
  EXPECT_THAT(r.error().message(), HasSubstr("f32"));
}

TEST(Table, pre_stored_frequency_buffer) {
  const auto s = plain(10000, 8);
  const char* name = "model.layers.0.self_attn.rotary_emb.inv_freq";
  const float cast[] = {1.0F, 0.10009765625F, 0.010009765625F, 0.00099945068359375F};
  const auto warning = check_stored_frequencies(s, name, cast);
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, HasSubstr("rotary_emb.inv_freq"));
  const float right[] = {1.0F, 0.1F, 0.01F, 0.001F};
  EXPECT_FALSE(check_stored_frequencies(s, name, right));
  const float never[] = {1.0F, std::nanf(""), 0.01F, 0.001F};
  EXPECT_TRUE(check_stored_frequencies(s, name, never));
  EXPECT_TRUE(check_stored_frequencies(s, name, std::span(right).first(3)));
}

TEST(Rotate, pos_row_offsets) {
  const std::vector<float> x = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4};
  expect_near(
      apply(plain(10000, 4), {5, 6, 3, 4}, x),
      {3.160435009452642, 1.7975838437072191, -0.10793771827345967, 4.094959380121222, 1.7984167812471437, 1.75654505395263,
       2.601095361752172, 4.112730172699706, -1.413352520780047, 1.8791180666879923, -2.828857481741469, 4.058191135400941,
       1.6167638650601728, 1.8384428765754193, -2.717733357898764, 4.07677909501718},
      2e-6);
}

TEST(Rotate, pos_negative) {
  expect_near(apply(plain(10000, 4), {-2, 2}, {1, 2, 3, 4, 1, 2, 3, 4}),
              {2.3117454439299028, 2.0795946801064877, -2.1577379364671088, 3.959202693279645, -3.1440391170241875,
               1.9196053465598233, -0.33914308281574546, 4.039197360052977},
              2e-6);
}

// Scores depend on the distance alone, wherever counting starts; f32 vectors of norm 5 and 4 give 4 u * 20 * 2 = 1e-5 of a
// score.
TEST(Rotate, pos_shift_of_all_positions) {
  const float k[3][4] = {{2, -1, 1, 3}, {0, 1, 2, -2}, {1, 1, -1, 1}};
  const double want[] = {1.785382708367494, -0.5774714321743468, 2.0};
  for (const int64_t start : {int64_t{0}, int64_t{-5}, int64_t{1000000}, (int64_t{1} << 31) - 2}) {
    const auto q = apply(plain(10000, 4), {start + 2}, {1, 2, 3, 4});
    for (int64_t n = 0; n < 3; ++n) {
      const auto r = apply(plain(10000, 4), {start + n}, {k[n][0], k[n][1], k[n][2], k[n][3]});
      double score = 0;
      for (size_t j = 0; j < 4; ++j) score += static_cast<double>(q[j]) * static_cast<double>(r[j]);
      EXPECT_NEAR(0.5 * score, want[n], 1e-5) << start;
    }
  }
}

// T = 1, B = 2, 16 heads.
TEST(Rotate, pos_one_token_many_rows) {
  const auto y = apply(plain(10000, 256), {6, 6}, std::vector<float>(2 * 16 * 256, 1.0F), 16);
  const std::vector<std::pair<size_t, double>> want = {
      {0, 1.239585784849292},     {1, 1.409030044740378},    {2, 1.3502107543610689},
      {64, 0.9382365334557595},   {127, 0.999355027486931},  {128, 0.6807547884514401},
      {129, 0.12097244735446266}, {192, 1.0581645464146487}, {255, 1.000644556791569}};
  for (size_t row = 0; row < 32; ++row) {
    for (const auto& [j, v] : want) EXPECT_NEAR(static_cast<double>(y[row * 256 + j]), v, 5e-7);
  }
}

TEST(Table, pos_cache_plus_new) {
  expect_table(table(plain(10000, 8), {10, 14}), {0, 1, 2, 3},
               {{-0.8390715290764524, 0.5403023058681398, 0.9950041652780258, 0.9999500004166653},
                {0.1367372182078336, 0.16996714290024093, 0.9902159962126371, 0.9999020016006562}},
               {{-0.5440211108893698, 0.8414709848078965, 0.09983341664682815, 0.009999833334166664},
                {0.9906073556948704, 0.9854497299884601, 0.1395431146442365, 0.013999542671148512}});
}

// There is no end: the table is made for the positions asked for.
TEST(Table, pos_table_end) {
  expect_table(table(plain(1000000, 128), {4095, 4096, 40959, 262143}), {0, 1, 31, 63},
               {{-0.0659759965580649, 0.313924532975513, 0.36091715720555, 0.9999870884945777},
                {0.803990613485849, -0.46755117819943814, 0.3620741749404005, 0.9999870821878358},
                {0.46689722324649613, 0.6076087982344502, 0.8461445290901616, 0.998708557143573},
                {-0.6091614905691977, 0.46727847462868677, 0.1477646914146259, 0.9475538852389523}},
               {{-0.9978212103769744, 0.9494479383284299, -0.9325978799218151, 0.005081618259718101},
                {-0.5946419876082146, 0.8839660037378798, -0.9321492862418703, 0.005082859181452565},
                {-0.8843115870125821, 0.794236456169123, 0.5329535025598282, 0.05080568755762179},
                {0.7930462019375122, -0.8841101894835778, -0.9890225457344946, 0.31959604905030725}});
  expect_table(table(scale_ntk(plain(10000, 128), 4).value(), {2047, 2048, 8191}), {0, 1, 31, 63},
               {{0.24971525821383958, 0.993926776256361, 0.8159531902397186, 0.9982543414030243},
                {0.9497343348236519, 0.740588624184431, 0.8193141970583028, 0.9982526359059007},
                {-0.6463904697642574, -0.5050916217220435, -0.7690613807991769, 0.9721708988491417}},
               {{-0.9683193119086263, -0.11004346159875923, -0.5781179735465986, 0.059061576934705796},
                {-0.31305701279012343, 0.6719586964454076, -0.5733447884987781, 0.05909039606332909},
                {-0.7630067893524556, 0.8630657296325676, -0.639174931112965, 0.23427279703553314}});
}

// Each call is as from a fresh object: nothing is kept between them.
TEST(Table, pos_table_key) {
  const std::vector<int> four = {0, 1, 2, 3};
  const auto cos_rows = [&](const RotarySchedule& s, int64_t from, const Rows& want) {
    const auto t = table(s, {from, from + 1});
    for (size_t r = 0; r < 2; ++r) {
      for (size_t j = 0; j < want[r].size(); ++j)
        EXPECT_NEAR(static_cast<double>(t.cos[r * static_cast<size_t>(t.planes) + j]), want[r][j], 6e-8);
    }
  };
  const Rows first = {{1, 1, 1, 1}, {0.5403023058681398, 0.9950041652780258, 0.9999500004166653, 0.9999995000000417}};
  cos_rows(plain(10000, 8), 0, first);
  cos_rows(plain(10000, 8), 7,
           {{0.7539022543433046, 0.7648421872844884, 0.9975510002532796, 0.9999755001000415},
            {-0.14550003380861354, 0.6967067093471654, 0.9968017063026194, 0.9999680001706663}});
  cos_rows(plain(500000, 8), 7,
           {{0.7539022543433046, 0.9655513894577367, 0.9999510004001654, 0.9999999307035362},
            {-0.14550003380861354, 0.9550854712012388, 0.9999360006826638, 0.9999999094903333}});
  cos_rows(plain(10000, 4), 7, {{0.7539022543433046, 0.9975510002532796}, {-0.14550003380861354, 0.9968017063026194}});
  cos_rows(scale_linear(plain(10000, 8), 2).value(), 7,
           {{-0.9364566872907963, 0.9393727128473789, 0.9993875625234886, 0.9999938750062526},
            {-0.6536436208636119, 0.9210609940028851, 0.9992001066609779, 0.9999920000106667}});
  cos_rows(plain(10000, 8), 0, first);
}

TEST(Table, pos_caller_table_bounds) {
  const std::vector<float> data(8 * 4, 0.5F);
  const CallerTable t{data.data(), data.data(), DType::kF32, 8, 4};
  EXPECT_EQ(rows_of_table(t, std::vector<int64_t>{7, 0}).value().cos.size(), 8U);
  EXPECT_THAT(rows_of_table(t, std::vector<int64_t>{8}).error().message(), HasSubstr("8"));
  const auto below = rows_of_table(t, std::vector<int64_t>{-1});
  EXPECT_THAT(below.error().message(), HasSubstr("-1"));
  EXPECT_THAT(below.error().message(), HasSubstr("8"));
}

TEST(Table, PositionsOutsideTheRangeAreNamed) {
  for (const int64_t m : {(int64_t{1} << 31) + 1, -(int64_t{1} << 31) - 1, INT64_MIN, INT64_MAX}) {
    const auto r = make_rotary_table(plain(10000, 8), std::vector<int64_t>{0, m});
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(r.error().message(), HasSubstr(std::to_string(m)));
  }
  for (const double m : {std::nan(""), 3e9, -HUGE_VAL})
    EXPECT_FALSE(make_rotary_table(plain(10000, 8), std::vector<double>{m}));
  EXPECT_EQ(table(plain(10000, 8), {}).cos.size(), 0U);
  auto fast = plain(10000, 8);
  for (const double f : {std::nan(""), 1e5, HUGE_VAL}) {
    fast.inv_freq[2] = f;
    EXPECT_THAT(make_rotary_table(fast, std::vector<int64_t>{0}).error().message(), HasSubstr("inv_freq[2]"));
  }
}

// Real positions: linear interpolation is m / s (same true angle, so both within an ulp of it).
TEST(Table, RealPositions) {
  const auto s = plain(10000, 64);
  const auto real = make_rotary_table(s, std::vector<double>{1234.5, -0.25, 0x1p31}).value();
  for (size_t i = 0; i < 32; ++i) {
    const auto angle = static_cast<long double>(1234.5) * static_cast<long double>(s.inv_freq[i]);
    expect_one_ulp(real.cos[i], static_cast<double>(std::cos(angle)));
    expect_one_ulp(real.sin[32 + i], std::sin(-0.25 * s.inv_freq[i]));
  }
  EXPECT_EQ(real.cos[64], table(s, {int64_t{1} << 31}).cos[0]);
}

// Axes (mro-contiguous-sections): plane i always has f_i, its position is that of its axis.
TEST(Table, AxesChooseThePosition) {
  auto s = plain(1000000, 128);
  for (int i = 0; i < 64; ++i) s.axis.push_back(i < 16 ? 0 : i < 40 ? 1 : 2);
  const auto t = table(s, {5, 1 << 20, 7, 3, 11, 9});  // t: 5, 2^20; h: 7, 3; w: 11, 9
  const std::vector<std::pair<size_t, double>> angles = {{0, 5.0},
                                                         {1, 4.029210938807409},
                                                         {15, 0.1962094879242268},
                                                         {16, 0.22135943621178655},
                                                         {39, 0.0015447138483592128},
                                                         {40, 0.001956107351042815},
                                                         {63, 1.3650315368268915e-05}};
  for (const auto& [plane, angle] : angles) {
    expect_one_ulp(t.cos[plane], std::cos(angle));
    expect_one_ulp(t.sin[plane], std::sin(angle));
  }
  EXPECT_EQ(t.cos[64], table(plain(1000000, 128), {1 << 20}).cos[0]);
  EXPECT_EQ(t.cos[64 + 63], table(plain(1000000, 128), {9}).cos[63]);
  EXPECT_FALSE(make_rotary_table(s, std::vector<int64_t>{1, 2, 3, 4}));            // no three rows
  for (const auto profile : {Profile::kHf, Profile::kGgml, Profile::kVllmBf16}) {  // equal axes are one axis
    EXPECT_EQ(table(s, {77, 77, 77}, profile).cos, table(plain(1000000, 128), {77}, profile).cos);
  }
}

TEST(Rotate, BadShapesAreErrors) {
  const auto s = plain(10000, 8);
  const auto t = table(s, {1, 2});
  std::vector<float> x(2 * 3 * 8), y(2 * 3 * 8);
  const auto ok = [&](ConstHeadsView a, HeadsView b) { return rotate(s, t, a, b).has_value(); };
  EXPECT_TRUE(ok(heads_view(x.data(), 2, 3, 8), heads_view(y.data(), 2, 3, 8)));
  EXPECT_FALSE(ok(heads_view(x.data(), 2, 3, 8), heads_view(y.data(), 3, 2, 8)));
  EXPECT_FALSE(ok(heads_view(x.data(), 1, 3, 8), heads_view(y.data(), 1, 3, 8)));  // table of two rows
  EXPECT_FALSE(ok(heads_view(x.data(), 2, 6, 4), heads_view(y.data(), 2, 6, 4)));  // R > D
  EXPECT_FALSE(ok(heads_view(static_cast<float*>(nullptr), 2, 3, 8), heads_view(y.data(), 2, 3, 8)));
  auto strided = heads_view(x.data(), 2, 3, 8);
  strided.token_stride = 4;
  EXPECT_FALSE(ok(heads_view(x.data(), 2, 3, 8), strided));  // in place with other strides
  auto other = heads_view(y.data(), 2, 3, 8);
  other.dtype = DType::kF16;
  EXPECT_FALSE(ok(heads_view(x.data(), 2, 3, 8), other));
}

// Threads change nothing.
TEST(Rotate, ThreadsGiveTheSameBits) {
  const auto s = plain(10000, 64, Pairing::kInterleaved);
  std::vector<int64_t> positions;
  std::vector<float> x;
  for (int64_t i = 0; i < 515; ++i) {
    positions.push_back((i * 7919) % 4099 - 77);
    for (int j = 0; j < 3 * 70; ++j) x.push_back(static_cast<float>(std::sin(static_cast<double>(i * 210 + j))));
  }
  const auto t = table(s, positions);
  auto one = x, four = x;
  rotate(s, t, heads_view(one.data(), 515, 3, 70), heads_view(one.data(), 515, 3, 70), 1).value();
  rotate(s, t, heads_view(four.data(), 515, 3, 70), heads_view(four.data(), 515, 3, 70), 4).value();
  EXPECT_EQ(one, four);
}

}  // namespace
}  // namespace ropewalk
