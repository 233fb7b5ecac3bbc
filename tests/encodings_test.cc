// What holds for every encoding of the registry: a new one is tested by being registered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "attention/reference.h"
#include "base/random.h"
#include "ropewalk/attention.h"
#include "ropewalk/encodings.h"
#include "simd/test_targets.h"

namespace ropewalk {
namespace {

using ::testing::HasSubstr;

constexpr int kHeads = 4;
constexpr int kKeyHeads = 2;
constexpr int kDim = 16;
constexpr int64_t kWidth = kHeads * kDim;
const EncodingContext kContext = {kHeads, kDim, kWidth, 256, 7};

// A layer without projections: q, k and v are the embeddings themselves, cut into heads.
struct Layer {
  PositionEncoding encoding;
  AttentionOptions options;

  // x [T][C] after the input term.
  std::vector<float> embed(std::vector<float> x, const std::vector<int64_t>& positions) const {
    if (encoding.input != nullptr) {
      const auto done = encoding.input->apply(positions, x.data(), kWidth);
      EXPECT_TRUE(done) << (done ? "" : done.error().message());
      // As a layer's norm does: some terms make the content much larger.
      for (size_t row = 0; row < x.size(); row += kWidth) {
        double square = 0;
        for (size_t i = row; i < row + kWidth; ++i) square += static_cast<double>(x[i]) * static_cast<double>(x[i]) / kWidth;
        for (size_t i = row; i < row + kWidth; ++i) x[i] *= static_cast<float>(0.5 / std::sqrt(square));
      }
    }
    return x;
  }

  // Queries [begin, end) over keys [0, end).
  std::vector<float> attend(const std::vector<float>& x, const std::vector<int64_t>& positions, int64_t begin, int64_t end,
                            bool reference = false) const {
    const std::vector<float> q = embed(x, positions);
    const std::span<const int64_t> all = positions;
    AttentionInputs in;
    in.q = heads_view(q.data() + begin * kWidth, end - begin, kHeads, kDim);
    in.k = heads_view(q.data(), end, kKeyHeads, kDim);
    in.k.token_stride = kWidth;
    in.v = heads_view(x.data(), end, kKeyHeads, kDim);  // what is read does not depend on where it stands
    in.v.token_stride = kWidth;
    in.q_pos = all.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    in.k_pos = all.first(static_cast<size_t>(end));
    in.q_index = begin;
    AttentionOptions how = options;
    use_encoding(encoding, in, how);
    if (options.reach.window > 0) how.reach = options.reach;
    std::vector<float> out(static_cast<size_t>((end - begin) * kWidth));
    const HeadsView view = heads_view(out.data(), end - begin, kHeads, kDim);
    const auto done = reference ? attention_reference(in, how, view) : attention(in, how, view);
    EXPECT_TRUE(done) << (done ? "" : done.error().message());
    return out;
  }
  std::vector<float> attend(const std::vector<float>& x, const std::vector<int64_t>& positions, bool reference = false) const {
    return attend(x, positions, 0, static_cast<int64_t>(positions.size()), reference);
  }
};

std::vector<float> embeddings(int64_t tokens, uint64_t seed = 1) {
  Random random(seed);
  std::vector<float> x(static_cast<size_t>(tokens * kWidth));
  for (float& value : x) value = static_cast<float>(random.normal()) * 0.5F;
  return x;
}

std::vector<int64_t> count_from(int64_t first, int64_t tokens) {
  std::vector<int64_t> positions(static_cast<size_t>(tokens));
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = difference <= largest ? largest : difference;  // NaN counts
  }
  return largest;
}

class EveryEncoding : public testing::TestWithParam<std::string> {
 protected:
  const EncodingInfo& info() const { return *find_encoding(GetParam()); }
  Layer layer(bool causal = true) const {
    Layer layer{make_encoding(GetParam(), kContext).value(), {}};
    layer.options.causal = causal;
    return layer;
  }
};

// Sums of 16 products of size 1, and a few hundred weights: 1e-5 is a hundred times what f32 needs.
constexpr double kClose = 1e-5;

TEST_P(EveryEncoding, TiledEqualsReference) {
  for (const bool causal : {true, false}) {
    for (const int64_t tokens : {1, 2, 63, 257, 600}) {
      // Input terms may have no position beyond the trained length.
      const int64_t used = info().points.input ? std::min<int64_t>(tokens, kContext.trained) : tokens;
      const auto x = embeddings(used);
      const auto positions = count_from(0, used);
      const Layer one = layer(causal);
      EXPECT_LT(largest_difference(one.attend(x, positions), one.attend(x, positions, true)), kClose) << used << causal;
    }
  }
}

// The same with gaps between positions, and an order of its own.
TEST_P(EveryEncoding, TiledEqualsReferenceAtAnyPositions) {
  const int64_t tokens = 200;
  auto positions = count_from(0, tokens);
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = (positions[i] * 77) % 251;
  const auto x = embeddings(tokens);
  for (const bool causal : {true, false}) {
    const Layer one = layer(causal);
    EXPECT_LT(largest_difference(one.attend(x, positions), one.attend(x, positions, true)), kClose) << causal;
  }
}

TEST_P(EveryEncoding, Bf16IsCloseToF32) {
  const auto x = embeddings(200);
  const auto positions = count_from(0, 200);
  Layer one = layer();
  const auto exact = one.attend(x, positions);
  one.options.compute = DType::kBF16;
  EXPECT_LT(largest_difference(exact, one.attend(x, positions)), 0.05);
}

// One pass, chunks, and one token at a time.
TEST_P(EveryEncoding, AnySplitGivesTheSame) {
  const int64_t tokens = 130;
  const auto x = embeddings(tokens);
  const auto positions = count_from(0, tokens);
  const Layer one = layer();
  const auto whole = one.attend(x, positions);
  for (const int64_t step : {1, 7, 64}) {
    for (int64_t begin = 0; begin < tokens; begin += step) {
      const int64_t end = std::min(tokens, begin + step);
      const auto part = one.attend(x, positions, begin, end);
      const auto same = std::span(whole).subspan(static_cast<size_t>(begin * kWidth), part.size());
      ASSERT_LT(largest_difference(part, same), kClose) << step << ' ' << begin;
    }
  }
}

// Scores that depend on m - n alone do not see a shift of all positions, however far.
TEST_P(EveryEncoding, ShiftInvarianceIsAsDeclared) {
  const int64_t tokens = 250;
  const auto x = embeddings(tokens);
  const Layer one = layer();
  if (info().points.input && !info().shift_invariant) return;  // it moves the content itself
  const auto at_zero = one.attend(x, count_from(0, tokens));
  double largest = 0;
  for (const int64_t shift : {int64_t{5}, int64_t{1} << 20, int64_t{1} << 30}) {
    largest = std::max(largest, largest_difference(at_zero, one.attend(x, count_from(shift, tokens))));
  }
  if (info().shift_invariant) {
    EXPECT_LT(largest, 2e-5);
  } else {
    EXPECT_GT(largest, 1e-3);
  }
}

// "I treat you to dinner" and "you treat me to dinner" in Chinese are one bag of characters. Without positions the words of one
// are those of the other in another order; with each encoding they differ.
TEST_P(EveryEncoding, OrderOfWordsMatters) {
  const std::vector<size_t> mine = {0, 1, 2, 3, 4}, yours = {2, 1, 0, 3, 4};  // 我请你吃饭, 你请我吃饭
  const auto words = embeddings(5);
  std::vector<float> other;
  for (const size_t word : yours) {
    other.insert(other.end(), words.begin() + static_cast<int64_t>(word) * kWidth,
                 words.begin() + static_cast<int64_t>(word + 1) * kWidth);
  }
  const Layer one = layer(false);
  const auto a = one.attend(words, count_from(0, 5));
  const auto b = one.attend(other, count_from(0, 5));
  double largest = 0;
  for (size_t place = 0; place < 5; ++place) {
    const auto of_word = std::span(a).subspan(yours[place] * kWidth, kWidth);
    largest = std::max(largest, largest_difference(of_word, std::span(b).subspan(place * kWidth, kWidth)));
  }
  const EncodingPoints& p = info().points;
  if (p.input || p.rotation || p.score || p.value || p.pairs) {
    EXPECT_GT(largest, 1e-3);
  } else {
    EXPECT_LT(largest, kClose);
  }
}

// On every SIMD target of this machine, in f32: what differs is rounding.
TEST_P(EveryEncoding, SimdTargetsAgree) {
  const auto x = embeddings(150);
  const auto positions = count_from(0, 150);
  const Layer one = layer();
  const auto want = one.attend(x, positions, true);
  simd::on_each_target(
      [&](const std::string& target) { EXPECT_LT(largest_difference(want, one.attend(x, positions)), kClose) << target; });
}

// A row of a padded batch equals the row alone: pads in front are hidden, and move no position.
TEST_P(EveryEncoding, LeftPaddingChangesNothing) {
  constexpr int64_t kTokens = 40, kPads = 7;
  const Layer one = layer();
  const auto x = embeddings(kTokens);
  const auto alone = one.attend(x, count_from(0, kTokens));
  const auto embedded = one.embed(x, count_from(0, kTokens));
  std::vector<float> q(kPads * kWidth, 3.0F), v(kPads * kWidth, NAN);
  q.insert(q.end(), embedded.begin(), embedded.end());
  v.insert(v.end(), x.begin(), x.end());
  std::vector<int64_t> positions(kPads, 0);
  std::vector<int32_t> segments(kPads, -1);
  for (int64_t i = 0; i < kTokens; ++i) {
    positions.push_back(i);
    segments.push_back(0);
  }
  AttentionInputs in;
  AttentionOptions how;
  in.q = heads_view(q.data(), kPads + kTokens, kHeads, kDim);
  in.k = heads_view(q.data(), kPads + kTokens, kKeyHeads, kDim);
  in.v = heads_view(v.data(), kPads + kTokens, kKeyHeads, kDim);
  in.k.token_stride = in.v.token_stride = kWidth;
  in.q_pos = in.k_pos = positions;
  in.q_segment = in.k_segment = segments;
  use_encoding(one.encoding, in, how);
  std::vector<float> out(q.size());
  const auto done = attention(in, how, heads_view(out.data(), kPads + kTokens, kHeads, kDim));
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_LT(largest_difference(std::span(out).subspan(kPads * kWidth), alone), kClose);
  for (size_t i = 0; i < kPads * kWidth; ++i) ASSERT_EQ(out[i], 0.0F);
}

// Nothing to do is done: no queries, or no keys.
TEST_P(EveryEncoding, EmptyInputs) {
  const Layer one = layer();
  const auto x = embeddings(3);
  const auto positions = count_from(0, 3);
  AttentionInputs in;
  AttentionOptions how;
  in.q = heads_view(x.data(), 3, kHeads, kDim);
  in.k = in.v = heads_view(x.data(), 0, kKeyHeads, kDim);
  in.q_pos = positions;
  use_encoding(one.encoding, in, how);
  std::vector<float> out(x.size(), 5.0F);
  ASSERT_TRUE(attention(in, how, heads_view(out.data(), 3, kHeads, kDim)));
  for (const float y : out) EXPECT_EQ(y, 0.0F);
  in.k = in.v = heads_view(x.data(), 3, kKeyHeads, kDim);
  in.k_pos = positions;
  in.q = heads_view(x.data(), 0, kHeads, kDim);
  in.q_pos = {};
  EXPECT_TRUE(attention(in, how, heads_view(out.data(), 0, kHeads, kDim)));
  EXPECT_TRUE(attention_backward(in, how, heads_view(static_cast<const float*>(out.data()), 0, kHeads, kDim), {}));
}

TEST_P(EveryEncoding, SameBytesForAnyThreadCount) {
  const auto x = embeddings(200);
  const auto positions = count_from(0, 200);
  Layer one = layer();
  const auto alone = one.attend(x, positions);
  one.options.threads = 3;
  EXPECT_EQ(alone, one.attend(x, positions));
}

// A loss of random weights on the outputs: its gradient by q, k, v and every weight against central differences of the
// reference, in double.
class Gradients {
 public:
  static constexpr int64_t kTokens = 9;
  Gradients(std::string text, bool causal) : text_(std::move(text)), causal_(causal) {
    Random random(5);
    const auto draw = [&](int64_t count, double size) {
      std::vector<float> x(static_cast<size_t>(count));
      for (float& value : x) value = static_cast<float>(size * random.normal());
      return x;
    };
    q_ = draw(kTokens * kHeads * kDim, 0.7);
    k_ = draw(kTokens * kKeyHeads * kDim, 0.7);
    v_ = draw(kTokens * kKeyHeads * kDim, 1);
    loss_ = draw(kTokens * kHeads * kDim, 1);
    positions_ = count_from(3, kTokens);
    types_ = {0, 0, 1, 1, 1, 0, 1, 0, 0};
    weights_ = encoding_weights(text_, kContext).value();
    for (EncodingWeight& weight : weights_) {
      for (float& x : weight.values) x *= 0.9F;  // inside of every range
    }
  }

  void check() {
    std::vector<float> by_q(q_.size()), by_k(k_.size()), by_v(v_.size());
    EncodingGradients by_weights;
    const PositionEncoding encoding = make_encoding(text_, kContext, weights_).value();
    AttentionOptions options;
    const AttentionInputs in = inputs(encoding, options);
    options.threads = 2;
    const AttentionGradients to = {heads_view(by_q.data(), kTokens, kHeads, kDim),
                                   heads_view(by_k.data(), kTokens, kKeyHeads, kDim),
                                   heads_view(by_v.data(), kTokens, kKeyHeads, kDim), &by_weights};
    const auto done = attention_backward(in, options, heads_view(loss_.data(), kTokens, kHeads, kDim), to);
    ASSERT_TRUE(done) << done.error().message();
    compare("q", q_, [&](size_t i) { return static_cast<double>(by_q[i]); });
    compare("k", k_, [&](size_t i) { return static_cast<double>(by_k[i]); });
    compare("v", v_, [&](size_t i) { return static_cast<double>(by_v[i]); });
    if (encoding.input != nullptr) return;  // an input term's weights: InputGradients
    for (EncodingWeight& weight : weights_) {
      const std::vector<double>* by = by_weights.find(weight.name);
      ASSERT_NE(by, nullptr) << weight.name;
      ASSERT_EQ(by->size(), weight.values.size()) << weight.name;
      compare(weight.name, weight.values, [&](size_t i) { return (*by)[i]; });
    }
  }

 private:
  AttentionInputs inputs(const PositionEncoding& encoding, AttentionOptions& options) const {
    AttentionInputs in;
    in.q = heads_view(q_.data(), kTokens, kHeads, kDim);
    in.k = heads_view(k_.data(), kTokens, kKeyHeads, kDim);
    in.v = heads_view(v_.data(), kTokens, kKeyHeads, kDim);
    in.q_pos = in.k_pos = positions_;
    in.q_type = in.k_type = types_;
    options.causal = causal_;
    use_encoding(encoding, in, options);
    return in;
  }
  double loss() const {
    const PositionEncoding encoding = make_encoding(text_, kContext, weights_).value();
    AttentionOptions options;
    const AttentionInputs in = inputs(encoding, options);
    HeadsView shape = heads_view(const_cast<float*>(q_.data()), kTokens, kHeads, kDim);
    const auto rows = attention_reference_double(in, options, shape).value();
    double sum = 0;
    for (size_t i = 0; i < rows.size(); ++i) sum += rows[i] * static_cast<double>(loss_[i]);
    return sum;
  }
  // Some elements, the same each time.
  void compare(const std::string& what, std::vector<float>& x, const std::function<double(size_t)>& gradient) {
    Random random(x.size());
    double largest = 0;
    for (size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(gradient(i)));
    for (int check = 0; check < 10; ++check) {
      const size_t i = random.below(x.size());
      const float kept = x[i];
      const float step = std::max(0x1p-9F, std::abs(kept) * 0x1p-9F);
      x[i] = kept + step;
      const double above = loss(), high = static_cast<double>(x[i]);
      x[i] = kept - step;
      const double below = loss(), low = static_cast<double>(x[i]);
      x[i] = kept;
      EXPECT_NEAR((above - below) / (high - low), gradient(i), 5e-4 * (largest + 0.1)) << text_ << ' ' << what << ' ' << i;
    }
  }

  std::string text_;
  bool causal_;
  std::vector<float> q_, k_, v_, loss_;
  std::vector<int64_t> positions_;
  std::vector<int32_t> types_;
  std::vector<EncodingWeight> weights_;
};

TEST_P(EveryEncoding, GradientsAgainstCentralDifferences) {
  for (const bool causal : {true, false}) Gradients(GetParam(), causal).check();
}

// What an input term does to a gradient, the same way.
TEST_P(EveryEncoding, InputGradients) {
  const int64_t tokens = 6;
  auto weights = encoding_weights(GetParam(), kContext).value();
  const PositionEncoding encoding = make_encoding(GetParam(), kContext, weights).value();
  if (encoding.input == nullptr) return;
  auto x = embeddings(tokens);
  const auto by_out = embeddings(tokens, 9);
  const auto positions = count_from(2, tokens);
  auto by_x = by_out;
  EncodingGradients by_weights;
  encoding.input->backward(positions, x.data(), by_x.data(), kWidth, by_weights);
  const auto loss = [&] {
    auto y = x;
    EXPECT_TRUE(make_encoding(GetParam(), kContext, weights).value().input->apply(positions, y.data(), kWidth));
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * static_cast<double>(by_out[i]);
    return sum;
  };
  const auto compare = [&](std::vector<float>& values, const std::function<double(size_t)>& gradient) {
    Random random(values.size());
    for (int check = 0; check < 10; ++check) {
      const size_t i = random.below(values.size());
      const float kept = values[i];
      values[i] = kept + 0x1p-8F;
      const double above = loss();
      values[i] = kept - 0x1p-8F;
      const double below = loss();
      values[i] = kept;
      EXPECT_NEAR((above - below) * 128, gradient(i), 1e-3 * (1 + std::abs(gradient(i)))) << i;
    }
  };
  compare(x, [&](size_t i) { return static_cast<double>(by_x[i]); });
  for (EncodingWeight& weight : weights) {
    const std::vector<double>* by = by_weights.find(weight.name);
    ASSERT_NE(by, nullptr) << weight.name;
    compare(weight.values, [&](size_t i) { return (*by)[i]; });
  }
}

// At both ends of each parameter's range: finite, or an error that names the encoding. Beyond: an error with the range.
TEST_P(EveryEncoding, ParametersAtTheirEdges) {
  const auto x = embeddings(20);
  for (const EncodingParameter& p : info().parameters) {
    for (const double value : {p.low, p.high}) {
      if (GetParam() == "learned" && p.name == "rows" && value > 0) continue;  // a table of 4 GB
      if (GetParam() == "shaw" && p.name == "reach") continue;                 // both ends are tested by their own values
      const std::string text = GetParam() + ":" + p.name + "=" + std::to_string(value);
      const auto made = make_encoding(text, kContext);
      if (!made) {
        EXPECT_THAT(made.error().message(), HasSubstr(GetParam())) << text;
        continue;
      }
      const Layer one{*made, {}};
      if (one.encoding.input != nullptr) {
        auto y = x;
        const auto applied = one.encoding.input->apply(count_from(0, 20), y.data(), kWidth);
        if (!applied) continue;
      }
      for (const float y : one.attend(x, count_from(0, 20))) ASSERT_TRUE(std::isfinite(y)) << text;
    }
    for (const double value : {p.low - 1, p.high * 2 + 1}) {
      const auto made = make_encoding(GetParam() + ":" + p.name + "=" + std::to_string(value), kContext);
      ASSERT_FALSE(made) << p.name << value;
      EXPECT_THAT(made.error().message(), testing::AllOf(HasSubstr(GetParam()), HasSubstr(p.name), HasSubstr("expected")));
    }
  }
}

TEST_P(EveryEncoding, WeightsByNameAndShape) {
  const auto weights = encoding_weights(GetParam(), kContext).value();
  const auto x = embeddings(30);
  const auto drawn = layer().attend(x, count_from(0, 30));
  const Layer given{make_encoding(GetParam(), kContext, weights).value(), {}};
  EXPECT_EQ(drawn, given.attend(x, count_from(0, 30)));
  for (size_t i = 0; i < weights.size(); ++i) {
    auto wrong = weights;
    wrong[i].shape.push_back(1);
    EXPECT_THAT(make_encoding(GetParam(), kContext, wrong).error().message(), HasSubstr(weights[i].name));
    wrong = weights;
    wrong[i].values[0] = NAN;
    EXPECT_FALSE(make_encoding(GetParam(), kContext, wrong));
  }
  const std::vector<EncodingWeight> unknown = {{"nothing", {1}, {1.0F}}};
  EXPECT_THAT(make_encoding(GetParam(), kContext, unknown).error().message(), HasSubstr("nothing"));
}

// Tables of other heads, or of heads of another size, are refused and not read past their end.
TEST_P(EveryEncoding, MadeForOtherHeads) {
  EncodingContext more = kContext;
  more.heads *= 2;
  more.head_dim /= 2;
  const Layer other{make_encoding(GetParam(), more).value(), {}};
  const bool bound =
      (other.encoding.score != nullptr && other.encoding.score->shape().heads + other.encoding.score->shape().dim > 0);
  if (!bound) return;
  const auto x = embeddings(3);
  const auto positions = count_from(0, 3);
  std::vector<float> out(x.size());
  AttentionInputs in;
  in.q = in.k = in.v = heads_view(x.data(), 3, kHeads, kDim);
  in.q_pos = in.k_pos = positions;
  in.score = other.encoding.score.get();
  const auto done = attention(in, {}, heads_view(out.data(), 3, kHeads, kDim));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::kInvalidArgument);
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const EncodingInfo& info : encodings()) list.push_back(info.name);
  return list;
}
INSTANTIATE_TEST_SUITE_P(All, EveryEncoding, testing::ValuesIn(names()), [](const auto& name) { return name.param; });

// The general form: a bias by its formula.
TEST(Expr, KnownBiasesByTheirFormulas) {
  const auto x = embeddings(300);
  const auto positions = count_from(5, 300);
  const auto with = [&](const std::string& text, const std::vector<EncodingWeight>& weights = {}) {
    const Layer layer{make_encoding(text, kContext, weights).value(), {}};
    return layer.attend(x, positions);
  };
  EXPECT_LT(largest_difference(with("expr:-2^(-8*(h+1)/H)*abs(d)"), with("alibi")), 1e-6);
  // Of the positions themselves: BLOOM's key-only form is equal under a causal softmax. m and n grow, so float ends at 1e-5.
  EXPECT_LT(largest_difference(with("expr:2^(-8*(h+1)/H)*n"), with("alibi")), 2e-5);
  const std::vector<EncodingWeight> ones = {{"r1", {kHeads}, {1, 1, 1, 1}}, {"r2", {kHeads}, {1, 1, 1, 1}}};
  EXPECT_LT(largest_difference(with("expr:-log(1+abs(d))"), with("kerple_log", ones)), 1e-6);
  EXPECT_LT(largest_difference(with("expr:0"), with("none")), 1e-6);
  // A window of 8, by infinity.
  Layer windowed{make_encoding("none", kContext).value(), {}};
  windowed.options.reach.window = 8;
  EXPECT_LT(largest_difference(with("expr:d < 8 ? 0 : -1/0"), windowed.attend(x, positions)), 1e-6);
}

TEST(Expr, WhatIsWrongIsNamed) {
  for (const char* bad :
       {"expr:1+", "expr:slope*d", "expr:sin(", "expr:m=3", "expr:d,1", "expr:\"d\"", "expr: ", "expr:rnd()"}) {
    const auto made = make_encoding(bad, kContext);
    ASSERT_FALSE(made) << bad;
    EXPECT_EQ(made.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(made.error().message(), testing::AllOf(HasSubstr("expr"), HasSubstr("m n d h H"))) << bad;
  }
  // A formula that is not a number somewhere gives NaN to the queries that see the pair.
  const Layer layer{make_encoding("expr:log(3-d)", kContext).value(), {}};
  const auto out = layer.attend(embeddings(6), count_from(0, 6));
  EXPECT_FALSE(std::isnan(out[2 * kWidth]));
  EXPECT_TRUE(std::isnan(out[4 * kWidth]));
}

// A table that is given is not drawn as well; one that no memory should hold is an error, and not an attempt.
TEST(Registry, TablesTooLargeToDraw) {
  EncodingContext wide = kContext;
  wide.width = 1 << 24;
  const auto made = make_encoding("learned:rows=16777216", wide);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ErrorCode::kTooLarge);
  EXPECT_THAT(made.error().message(),
              testing::AllOf(HasSubstr("learned"), HasSubstr("table"), HasSubstr("[16777216, 16777216]")));
}

// Calls with other distances may share a term: what one prepared stays for it.
TEST(Xl, PreparedDistancesOnlyGrow) {
  const Layer layer{make_encoding("xl", kContext).value(), {}};
  const auto x = embeddings(20);
  const auto before = layer.attend(x, count_from(0, 20));
  ASSERT_TRUE(layer.encoding.score->prepare(-3, 2));
  const auto positions = count_from(0, 20);
  ScoreTile tile;
  tile.q_pos = std::span(positions).last(1);
  tile.k_pos = positions;
  tile.q = x.data();
  tile.k = x.data();
  tile.q_stride = tile.k_stride = kDim;
  std::vector<float> scores(20);
  layer.encoding.score->add(tile, scores.data(), 20);  // d = 0 .. 19, as the first call had prepared
  for (const float s : scores) EXPECT_TRUE(std::isfinite(s));
  EXPECT_EQ(before, layer.attend(x, positions));
  const auto far = layer.encoding.score->prepare(0, int64_t{1} << 40);
  ASSERT_FALSE(far);
  EXPECT_EQ(far.error().code(), ErrorCode::kTooLarge);
}

TEST(Registry, WhatIsWrongIsNamed) {
  EXPECT_THAT(make_encoding("alibbi", kContext).error().message(), testing::AllOf(HasSubstr("alibbi"), HasSubstr("alibi")));
  EXPECT_THAT(make_encoding("alibi:slope=3", kContext).error().message(),
              testing::AllOf(HasSubstr("slope=3"), HasSubstr("max=")));
  EXPECT_THAT(make_encoding("alibi:max=x", kContext).error().message(), testing::AllOf(HasSubstr("max"), HasSubstr("'x'")));
  EXPECT_THAT(make_encoding("alibi:max", kContext).error().message(), HasSubstr("'max'"));
  EXPECT_THAT(make_encoding("none:a=1", kContext).error().message(), HasSubstr("no parameters"));
  EncodingContext bad = kContext;
  bad.heads = 0;
  EXPECT_THAT(make_encoding("alibi", bad).error().message(), HasSubstr("heads"));
}

}  // namespace
}  // namespace ropewalk
