// Transformer-XL's relative scores (Dai et al. 2019, arXiv:1901.02860, section 3.3):
// s = [(q_m + u) . k_n + (q_m + v) . r_d] * scale, r_d = R_d W_r, R_d the sinusoid of d in halves.
#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fail.h"
#include "encodings/dot.h"
#include "encodings/registry.h"
#include "encodings/sinusoidal/sinusoid.h"

namespace ropewalk {
namespace {

// r_d of all heads for the distances [least, largest].
struct Vectors {
  int64_t least = 0, largest = -1;
  std::vector<float> values;  // [distances][H][D]
};

class TransformerXl : public ScoreTerm {
 public:
  TransformerXl(const EncodingContext& context, double theta, std::vector<float> wr, std::vector<float> u, std::vector<float> v)
      : heads_(context.heads),
        dim_(context.head_dim),
        width_(context.width),
        form_{SinusoidForm::Layout::kHalves, false, theta},
        frequencies_(sinusoid_frequencies(form_, width_)),
        wr_(std::move(wr)),
        u_(std::move(u)),
        v_(std::move(v)) {}

  // Each distance has its own vector, made once: d is looked up, never shifted, so both directions are right.
  Result<void> prepare(int64_t least, int64_t largest) const override {
    const std::lock_guard lock(mutex_);
    if (vectors_ != nullptr) {
      if (vectors_->least <= least && largest <= vectors_->largest) return {};
      // Another call may still use what is there: the range only grows.
      least = std::min(least, vectors_->least);
      largest = std::max(largest, vectors_->largest);
    }
    constexpr int64_t kMost = int64_t{1} << 28;  // 1 GB
    const int64_t size = int64_t{heads_} * dim_;
    if (largest - least >= kMost / size) {
      return fail(ErrorCode::kTooLarge, "[xl] expected at most {} distances for {} heads of {}, but got {} to {}", kMost / size,
                  heads_, dim_, least, largest);
    }
    auto made = std::make_shared<Vectors>();
    made->least = least;
    made->largest = largest;
    std::vector<double> sinusoid_of(static_cast<size_t>(width_)), row(static_cast<size_t>(size));
    try {
      made->values.reserve(static_cast<size_t>((largest - least + 1) * size));
    } catch (const std::bad_alloc&) {
      return fail(ErrorCode::kTooLarge, "[xl] no memory for the vectors of {} distances", largest - least + 1);
    }
    for (int64_t d = least; d <= largest; ++d) {
      sinusoid(form_, frequencies_, static_cast<double>(d), width_, sinusoid_of.data());
      std::fill(row.begin(), row.end(), 0.0);
      for (int64_t c = 0; c < width_; ++c) {
        const double x = sinusoid_of[static_cast<size_t>(c)];
        const float* w = wr_.data() + c * size;
        for (int64_t i = 0; i < size; ++i) row[static_cast<size_t>(i)] += x * static_cast<double>(w[i]);
      }
      for (const double x : row) made->values.push_back(static_cast<float>(x));
    }
    vectors_ = std::move(made);
    return {};
  }

  TermShape shape() const override { return {heads_, dim_}; }
  void add(const ScoreTile& tile, float* scores, int64_t stride) const override { add_to(tile, scores, stride); }
  void add(const ScoreTile& tile, double* scores, int64_t stride) const override { add_to(tile, scores, stride); }
  bool needs_content() const override { return true; }

 private:
  template <class T>
  void add_to(const ScoreTile& tile, T* scores, int64_t stride) const {
    const std::shared_ptr<const Vectors> vectors = prepared();
    const size_t cols = tile.k_pos.size();
    const float* u = u_.data() + int64_t{tile.head} * dim_;
    const float* v = v_.data() + int64_t{tile.head} * dim_;
    std::vector<T> content(cols);
    for (size_t c = 0; c < cols; ++c) content[c] = dot_as<T>(u, tile.k + static_cast<int64_t>(c) * tile.k_stride, dim_);
    std::vector<float> query(static_cast<size_t>(dim_));
    for (size_t r = 0; r < tile.q_pos.size(); ++r) {
      const float* q = tile.q + static_cast<int64_t>(r) * tile.q_stride;
      for (int i = 0; i < dim_; ++i) query[static_cast<size_t>(i)] = q[i] + v[i];
      for (size_t c = 0; c < cols; ++c) {
        const int64_t d = tile.q_pos[r] - tile.k_pos[c];
        const float* vector = vectors->values.data() + ((d - vectors->least) * heads_ + tile.head) * dim_;
        scores[static_cast<int64_t>(r) * stride + static_cast<int64_t>(c)] +=
            static_cast<T>(tile.scale) * (content[c] + dot_as<T>(query.data(), vector, dim_));
      }
    }
  }
  std::shared_ptr<const Vectors> prepared() const {
    const std::lock_guard lock(mutex_);
    return vectors_;
  }

  int heads_, dim_;
  int64_t width_;
  SinusoidForm form_;
  std::vector<double> frequencies_;
  std::vector<float> wr_;     // [C][H][D]
  std::vector<float> u_, v_;  // [H][D]
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Vectors> vectors_;
};

}  // namespace

const EncodingEntry& encoding_xl() {
  static const EncodingEntry entry = {
      .info = {.name = "xl",
               .title = "Transformer-XL's relative scores",
               .family = "content",
               .formula = "s = [(q_m + u) . k_n + (q_m + v) . r_d] * scale, r_d = R_d W_r, R_d = [sines | cosines] of d",
               .summary =
                   "The expansion of the sinusoidal encoding's product with the positions made relative: a vector for every "
                   "distance, made from sinusoids by a learned map, and two learned vectors in place of the query's position.",
               .used_by = "Transformer-XL, XLNet (without its segment term)",
               .source = "Dai et al. 2019, arXiv:1901.02860, section 3.3",
               .cost = "a second product of queries with as many vectors as keys, and a table of distances",
               .parameters = {{"theta", "base of the sinusoids", 10000, 1, 1e12, false}},
               .points = {.score = true},
               .shift_invariant = true},
      .shapes = [](const EncodingArguments&, const EncodingContext& context) -> std::vector<EncodingWeight> {
        return {{"wr", {context.width, context.heads, context.head_dim}, {}},
                {"u", {context.heads, context.head_dim}, {}},
                {"v", {context.heads, context.head_dim}, {}}};
      },
      .initial = [](const std::string& table, double normal) { return (table == "wr" ? 0.1 : 0.3) * normal; },
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables& tables) -> Result<PositionEncoding> {
        PositionEncoding encoding;
        encoding.score = std::make_shared<TransformerXl>(context, arguments["theta"], tables["wr"], tables["u"], tables["v"]);
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
