#include "engine/forward.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/fail.h"
#include "base/machine.h"
#include "base/parallel.h"
#include "engine/layer.h"
#include "engine/output.h"
#include "engine/packed_weights.h"
#include "engine/pass.h"
#include "engine/weights.h"
#include "simd/ops.h"

namespace ropewalk {

Result<void> check_tokens(const ModelSpec& spec, std::span<const int32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= spec.vocabulary) {
      return fail(ErrorCode::kInvalidArgument, "[engine] expected token ids from 0 to {}, but got {} at place {}",
                  spec.vocabulary - 1, tokens[i], i);
    }
  }
  return {};
}

Result<void> check_positions(const ModelSpec& spec, const LayerPositions& positions) {
  if (positions.size() == spec.layers.size()) return {};
  return fail(ErrorCode::kInvalidArgument, "[engine] expected a position scheme for each of {} layers, but got {}",
              spec.layers.size(), positions.size());
}

Result<void> embed(const Model& model, std::span<const int32_t> tokens, int threads, float* x) {
  const ModelSpec& spec = model.spec();
  const int64_t c = spec.width;
  const auto count = static_cast<int64_t>(tokens.size());
  parallel_ranges(Threads{threads}, count, 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      dequantize_rows(*spec.token_embedding, tokens[static_cast<size_t>(t)], 1, x + t * c);
      if (spec.embedding_scale != 1) ops::scale_by(static_cast<float>(spec.embedding_scale), c, x + t * c);
    }
  });
  const int64_t bad = ops::first_non_finite(x, count * c);
  if (bad < 0) return {};
  return fail(ErrorCode::kCorrupt, "[engine] {}: tensor {}: expected finite weights, but got {} at row {}, column {}",
              model.path(), spec.token_embedding->name, x[bad], tokens[static_cast<size_t>(bad / c)], bad % c);
}

Result<void> attend(const ModelSpec& spec, const AppliedLayer& position, AttentionInputs inputs, const ForwardOptions& options,
                    HeadsView out) {
  AttentionOptions how;
  how.scale = spec.attention_scale;
  how.reach = position.reach;
  how.softcap = spec.attention_softcap;
  how.compute = options.precision == Precision::kFast && bf16_products() ? DType::kBF16 : DType::kF32;
  how.threads = options.threads;
  inputs.pairs = position.pairs.get();
  if (position.pairs == nullptr && position.rotary) inputs.rotary = &*position.rotary;
  return attention(inputs, how, out);
}

namespace {

Result<void> interrupted(const Control& control) {
  if (!control.stopped()) return {};
  return fail(ErrorCode::kInterrupted, "[engine] stopped before the window was finished");
}

Result<void> check_memory(const ModelSpec& spec, int64_t length, const ForwardOptions& options) {
  const int64_t need = score_memory(spec, length, options);
  const auto have = static_cast<int64_t>(memory_available());
  if (have <= 0 || need <= have) return {};
  return fail(ErrorCode::kTooLarge, "[engine] a window of {} tokens: expected {} MB of memory to be available, but got {} MB",
              length, need >> 20, have >> 20);
}

}  // namespace

Result<std::vector<double>> score_window(const Model& model, const LayerPositions& positions, std::span<const int32_t> tokens,
                                         std::span<const int64_t> score, const ForwardOptions& options,
                                         const Control& control) {
  const ModelSpec& spec = model.spec();
  const auto n = static_cast<int64_t>(tokens.size());
  if (n < 2) return fail(ErrorCode::kInvalidArgument, "[engine] expected at least 2 tokens to score, but got {}", n);
  ROPEWALK_CHECK_OK(check_tokens(spec, tokens));
  ROPEWALK_CHECK_OK(check_positions(spec, positions));
  for (size_t i = 0; i < score.size(); ++i) {
    if (score[i] < (i == 0 ? 0 : score[i - 1] + 1) || score[i] > n - 2) {
      return fail(ErrorCode::kInvalidArgument,
                  "[engine] expected rising positions to score, from 0 to {}, but got {} at place {}", n - 2, score[i], i);
    }
  }
  ROPEWALK_CHECK_OK(check_memory(spec, n, options));

  // The last token predicts nothing that is scored.
  const int64_t rows = score.empty() ? n - 1 : score.back() + 1;
  const int64_t c = spec.width, width = qkv_width(spec), q = int64_t{spec.heads} * spec.head_dim;
  ROPEWALK_TRY(AlignedBuffer<float> x, AlignedBuffer<float>::make(rows * c));
  ROPEWALK_TRY(AlignedBuffer<float> qkv, AlignedBuffer<float>::make(rows * width));
  ROPEWALK_TRY(AlignedBuffer<float> o, AlignedBuffer<float>::make(rows * q));
  ROPEWALK_CHECK_OK(embed(model, tokens.first(static_cast<size_t>(rows)), options.threads, x.data()));
  ROPEWALK_TRY(const std::vector<LayerVectors> vectors, expand_vectors(spec, model.path()));
  const RowBlocks blocks = make_row_blocks(rows, kBlockRows, options.threads);
  ROPEWALK_TRY(std::vector<Workspace> work,
               make_workspaces(spec, blocks.block, std::min(spec.vocabulary, kVocabularyChunk), std::max(options.threads, 1)));
  std::vector<int64_t> places(static_cast<size_t>(rows));
  std::iota(places.begin(), places.end(), int64_t{0});

  WeightSource weights(model, options, blocks.block);
  const auto steps = static_cast<double>(spec.layers.size());
  const double layers_flops =
      score_flops(spec, rows) - 2.0 * static_cast<double>(rows) * static_cast<double>(spec.vocabulary * c);
  const double total_flops = score_flops(spec, rows);
  for (size_t l = 0; l < spec.layers.size(); ++l) {
    ROPEWALK_CHECK_OK(interrupted(control));
    if (control.progress) control.progress(layers_flops * static_cast<double>(l) / steps, total_flops);
    ROPEWALK_TRY(PackedLayer* const layer, weights.layer(l));
    ROPEWALK_CHECK_OK(layer->prepare(vectors[l], blocks));
    parallel_for(Threads{options.threads}, blocks.count, [&](int64_t b, int thread) {
      project_block(spec, vectors[l], *layer, x.data() + blocks.begin(b) * c, blocks.rows(b),
                    qkv.data() + blocks.begin(b) * width, work[static_cast<size_t>(thread)]);
    });
    const int d = spec.head_dim;
    AttentionInputs inputs;
    inputs.q = HeadsView{qkv.data(), DType::kF32, rows, spec.heads, d, width, d};
    inputs.k = HeadsView{qkv.data() + q, DType::kF32, rows, spec.kv_heads, d, width, d};
    inputs.v = HeadsView{qkv.data() + q + int64_t{spec.kv_heads} * d, DType::kF32, rows, spec.kv_heads, d, width, d};
    inputs.q_pos = inputs.k_pos = places;
    ROPEWALK_CHECK_OK(attend(spec, positions[l], inputs, options, heads_view(o.data(), rows, spec.heads, d)));
    parallel_for(Threads{options.threads}, blocks.count, [&](int64_t b, int thread) {
      finish_block(spec, vectors[l], *layer, o.data() + blocks.begin(b) * q, blocks.rows(b), x.data() + blocks.begin(b) * c,
                   work[static_cast<size_t>(thread)]);
    });
  }

  // Only the rows that are scored go on to the output matrix, moved up in place.
  std::vector<int32_t> targets;
  if (score.empty()) {
    targets.assign(tokens.begin() + 1, tokens.end());
  } else {
    for (size_t i = 0; i < score.size(); ++i) {
      std::copy_n(x.data() + score[i] * c, c, x.data() + static_cast<int64_t>(i) * c);
      targets.push_back(tokens[static_cast<size_t>(score[i] + 1)]);
    }
  }
  OutputProgress progress{control, layers_flops, total_flops};
  return score_outputs(model, x.data(), targets, weights, work, options, progress);
}

}  // namespace ropewalk
