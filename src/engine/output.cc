#include "engine/output.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fail.h"
#include "base/parallel.h"
#include "engine/weights.h"
#include "simd/ops.h"

namespace ropewalk {
namespace {

// A running log-sum-exp (Milakov and Gimelshein 2018, arXiv:1805.02867), and the logit of the target.
struct Running {
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double target = 0;

  void add(const ops::ExpSum& part) {
    const auto top = static_cast<double>(part.largest);
    if (top > largest) {
      sum *= std::exp(largest - top);
      largest = top;
    }
    sum += part.sum * std::exp(top - largest);
  }
  double nll() const { return largest + std::log(sum) - target; }
};

void soft_cap(double cap, float* logits, int64_t n) {
  if (cap <= 0) return;
  for (int64_t i = 0; i < n; ++i) logits[i] = static_cast<float>(cap * std::tanh(static_cast<double>(logits[i]) / cap));
}

}  // namespace

Result<std::vector<double>> score_outputs(const Model& model, float* x, std::span<const int32_t> targets, WeightSource& weights,
                                          std::vector<Workspace>& work, const ForwardOptions& options,
                                          const OutputProgress& progress) {
  const ModelSpec& spec = model.spec();
  const int64_t c = spec.width, n = static_cast<int64_t>(targets.size());
  const RowBlocks blocks = make_row_blocks(n, weights.block_rows(), options.threads);
  ROPEWALK_TRY(const std::vector<float> norm, expand_vector(spec.output_norm, model.path()));
  parallel_ranges(Threads{options.threads}, n, 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      ops::rms_norm(x + r * c, norm.data(), spec.norm_plus_one ? 1.0F : 0.0F, static_cast<float>(spec.norm_epsilon), c,
                    x + r * c);
    }
  });

  std::vector<Running> rows(static_cast<size_t>(n));
  for (int64_t first = 0; first < spec.vocabulary; first += kVocabularyChunk) {
    if (progress.control.stopped()) return fail(ErrorCode::kInterrupted, "[engine] stopped before the window was finished");
    if (progress.control.progress) {
      const double share = static_cast<double>(first) / static_cast<double>(spec.vocabulary);
      progress.control.progress(progress.before + share * (progress.total - progress.before), progress.total);
    }
    const int64_t count = std::min(kVocabularyChunk, spec.vocabulary - first);
    ROPEWALK_TRY(PackedMatrix* const matrix, weights.output(first, count));
    ROPEWALK_CHECK_OK(matrix->prepare(blocks.block, false));
    ROPEWALK_CHECK_OK(matrix->prepare(blocks.tail(), false));
    parallel_for(Threads{options.threads}, blocks.count, [&](int64_t b, int thread) {
      Workspace& w = work[static_cast<size_t>(thread)];
      float* logits = w.wide.data();  // [rows][count]
      matrix->multiply(x + blocks.begin(b) * c, blocks.rows(b), false, logits, w.scratch);
      for (int64_t r = 0; r < blocks.rows(b); ++r) {
        float* row = logits + r * count;
        soft_cap(spec.logit_softcap, row, count);
        const auto i = static_cast<size_t>(blocks.begin(b) + r);
        rows[i].add(ops::exp_sum(row, count));
        const int64_t target = targets[i] - first;
        if (target >= 0 && target < count) rows[i].target = static_cast<double>(row[target]);
      }
    });
  }
  std::vector<double> nll;
  nll.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    nll.push_back(rows[i].nll());
    if (!std::isfinite(nll.back())) {
      return fail(ErrorCode::kCorrupt,
                  "[engine] {}: expected a finite log-likelihood, but got {} at scored token {}: activations overflow",
                  model.path(), nll.back(), i);
    }
  }
  if (progress.control.progress) progress.control.progress(progress.total, progress.total);
  return nll;
}

}  // namespace ropewalk
