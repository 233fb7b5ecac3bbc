// Generation: chunks of a prompt and single tokens against a cache of keys and values.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/aligned.h"
#include "base/fail.h"
#include "base/machine.h"
#include "base/parallel.h"
#include "engine/packed_weights.h"
#include "engine/pass.h"
#include "engine/stored_products.h"
#include "engine/weights.h"
#include "ropewalk/kv_cache.h"
#include "simd/ops.h"

namespace ropewalk {
namespace {

// A longer prompt passes in pieces: activations stay small, and each piece still has enough rows to pay for expanding the
// weights.
constexpr int64_t kChunk = 2048;

}  // namespace

struct Session::State {
  const Model* model = nullptr;
  LayerPositions positions;
  ForwardOptions options;
  int64_t capacity = 0, length = 0;
  std::vector<LayerVectors> vectors;
  std::vector<float> output_norm;
  std::vector<KvCache> cache;
  std::vector<int64_t> places;  // 0 .. capacity - 1

  Result<void> run(std::span<const int32_t> tokens, const Control& control, std::vector<float>* logits);
  Result<void> run_layer(size_t layer, int64_t rows, const float* qkv, float* o);
  Result<void> not_finite() const;
};

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;
int64_t Session::length() const { return state_->length; }
int64_t Session::capacity() const { return state_->capacity; }

Result<Session> Session::make(const Model& model, const LayerPositions& positions, int64_t capacity,
                              const ForwardOptions& options) {
  const ModelSpec& spec = model.spec();
  if (capacity < 1)
    return fail(ErrorCode::kInvalidArgument, "[session] expected a capacity of at least 1 token, but got {}", capacity);
  ROPEWALK_CHECK_OK(check_positions(spec, positions));
  std::vector<KvCacheOptions> caches;
  double need = 0;
  for (const AppliedLayer& position : positions) {
    KvCacheOptions c;
    c.capacity = capacity;
    c.heads = spec.kv_heads;
    c.dim = c.value_dim = spec.head_dim;
    if (position.pairs == nullptr) c.rotary = position.rotary;
    ROPEWALK_TRY(const int64_t bytes, KvCache::memory(c));
    need += static_cast<double>(bytes);
    caches.push_back(std::move(c));
  }
  const auto have = static_cast<double>(memory_available());
  if (have > 0 && need > have) {
    return fail(ErrorCode::kTooLarge,
                "[session] a cache for {} tokens: expected {:.0f} MB of memory to be available, but got {:.0f} MB", capacity,
                need / 1048576, have / 1048576);
  }
  auto state = std::make_unique<State>();
  state->model = &model;
  state->positions = positions;
  state->options = options;
  state->capacity = capacity;
  ROPEWALK_TRY(state->vectors, expand_vectors(spec, model.path()));
  ROPEWALK_TRY(state->output_norm, expand_vector(spec.output_norm, model.path()));
  for (KvCacheOptions& c : caches) {
    ROPEWALK_TRY(KvCache layer, KvCache::make(std::move(c)));
    state->cache.push_back(std::move(layer));
  }
  state->places.resize(static_cast<size_t>(capacity));
  std::iota(state->places.begin(), state->places.end(), int64_t{0});
  return Session(std::move(state));
}

Result<std::vector<float>> Session::append(std::span<const int32_t> tokens, const Control& control) {
  State& s = *state_;
  if (tokens.empty()) return fail(ErrorCode::kInvalidArgument, "[session] expected at least one token, but got none");
  ROPEWALK_CHECK_OK(check_tokens(s.model->spec(), tokens));
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > s.capacity - s.length) {
    return fail(ErrorCode::kTooLarge, "[session] expected at most {} more tokens (capacity {}), but got {}",
                s.capacity - s.length, s.capacity, count);
  }
  const int64_t before = s.length;
  std::vector<float> logits;
  for (int64_t at = 0; at < count; at += kChunk) {
    const int64_t rows = std::min(kChunk, count - at);
    if (control.progress && count > kFewRows) control.progress(static_cast<double>(at), static_cast<double>(count));
    const bool last = at + rows == count;
    if (auto ok = s.run(tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(rows)), control, last ? &logits : nullptr);
        !ok) {
      s.length = before;
      for (KvCache& layer : s.cache) {
        if (layer.length() > before) ROPEWALK_CHECK_OK(layer.truncate(before));
      }
      return ok.error();
    }
  }
  if (control.progress && count > kFewRows) control.progress(static_cast<double>(count), static_cast<double>(count));
  return logits;
}

// qkv [rows][N] -> o [rows][H D], with the rows' keys and values added to the cache.
Result<void> Session::State::run_layer(size_t layer, int64_t rows, const float* qkv, float* o) {
  const ModelSpec& spec = model->spec();
  const int d = spec.head_dim;
  const int64_t width = qkv_width(spec), q = int64_t{spec.heads} * d, kv = int64_t{spec.kv_heads} * d;
  const auto view = [&](const float* data, int heads) {
    return HeadsView{const_cast<float*>(data), DType::kF32, rows, heads, d, width, d};
  };
  const auto where = std::span(places).subspan(static_cast<size_t>(length), static_cast<size_t>(rows));
  ROPEWALK_CHECK_OK(cache[layer].append(view(qkv + q, spec.kv_heads), view(qkv + q + kv, spec.kv_heads), where));
  AttentionInputs inputs = cache[layer].inputs(rows);
  inputs.q = view(qkv, spec.heads);
  return attend(spec, positions[layer], inputs, options, heads_view(o, rows, spec.heads, d));
}

Result<void> Session::State::run(std::span<const int32_t> tokens, const Control& control, std::vector<float>* logits) {
  const ModelSpec& spec = model->spec();
  const auto rows = static_cast<int64_t>(tokens.size());
  const int64_t c = spec.width, width = qkv_width(spec), q = int64_t{spec.heads} * spec.head_dim;
  const bool few = rows <= kFewRows;
  ROPEWALK_TRY(AlignedBuffer<float> x, AlignedBuffer<float>::make(rows * c));
  ROPEWALK_TRY(AlignedBuffer<float> qkv, AlignedBuffer<float>::make(rows * width));
  ROPEWALK_TRY(AlignedBuffer<float> o, AlignedBuffer<float>::make(rows * q));
  ROPEWALK_CHECK_OK(embed(*model, tokens, options.threads, x.data()));
  const RowBlocks blocks = few ? RowBlocks{rows, rows, 1} : make_row_blocks(rows, kBlockRows, options.threads);
  ROPEWALK_TRY(std::vector<Workspace> work, make_workspaces(spec, blocks.block, 0, few ? 1 : std::max(options.threads, 1)));
  WeightSource weights(*model, options, blocks.block);
  const Threads over_blocks{few ? 1 : options.threads};
  for (size_t l = 0; l < spec.layers.size(); ++l) {
    if (control.stopped()) return fail(ErrorCode::kInterrupted, "[session] stopped before the tokens were read");
    const StoredProducts stored(spec, spec.layers[l], Threads{options.threads});
    const LayerProducts* products = &stored;
    if (!few) {
      ROPEWALK_TRY(PackedLayer* const layer, weights.layer(l));
      ROPEWALK_CHECK_OK(layer->prepare(vectors[l], blocks));
      products = layer;
    }
    parallel_for(over_blocks, blocks.count, [&](int64_t b, int thread) {
      project_block(spec, vectors[l], *products, x.data() + blocks.begin(b) * c, blocks.rows(b),
                    qkv.data() + blocks.begin(b) * width, work[static_cast<size_t>(thread)]);
    });
    ROPEWALK_CHECK_OK(run_layer(l, rows, qkv.data(), o.data()));
    parallel_for(over_blocks, blocks.count, [&](int64_t b, int thread) {
      finish_block(spec, vectors[l], *products, o.data() + blocks.begin(b) * q, blocks.rows(b), x.data() + blocks.begin(b) * c,
                   work[static_cast<size_t>(thread)]);
    });
  }
  length += rows;
  if (logits == nullptr) return {};
  float* last = x.data() + (rows - 1) * c;
  ops::rms_norm(last, output_norm.data(), spec.norm_plus_one ? 1.0F : 0.0F, static_cast<float>(spec.norm_epsilon), c, last);
  logits->resize(static_cast<size_t>(spec.vocabulary));
  const RowRange all{spec.output, 0, spec.vocabulary};
  multiply_stored(std::span(&all, 1), last, 1, false, logits->data(), Threads{options.threads});
  if (spec.logit_softcap > 0) {
    for (float& z : *logits)
      z = static_cast<float>(spec.logit_softcap * std::tanh(static_cast<double>(z) / spec.logit_softcap));
  }
  return ops::first_non_finite(logits->data(), spec.vocabulary) < 0 ? Result<void>() : not_finite();
}

// The path from stored blocks does not look at every weight; when a logit comes out wrong, this finds the weight to blame.
Result<void> Session::State::not_finite() const {
  for (const StoredTensor& tensor : model->tensors().tensors()) {
    std::vector<float> row(static_cast<size_t>(tensor.cols()));
    for (int64_t r = 0; r < tensor.rows(); ++r) ROPEWALK_CHECK_OK(expand_rows(tensor, r, 1, model->path(), row.data()));
  }
  return fail(ErrorCode::kCorrupt,
              "[session] {}: expected finite logits, but the weights are finite and the activations overflow", model->path());
}

}  // namespace ropewalk
