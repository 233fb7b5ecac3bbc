// Tiled attention with an online softmax: two ways over the same worker.
//
//   many rows   keys and values of all heads are packed first, then blocks of queries run in parallel over (key head, block)
//   few rows    one block of queries (decoding, short chunks): the keys are split among threads, packed as they are met, and
//   the
//               partial results merged: exactly, since maxima are integers and scale by powers of two
#include "ropewalk/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "attention/inputs.h"
#include "attention/sides.h"
#include "attention/vector_tables.h"
#include "attention/visibility.h"
#include "attention/worker.h"
#include "base/aligned.h"
#include "base/fail.h"
#include "base/parallel.h"

namespace ropewalk {
namespace {

constexpr int64_t kBlockRows = 96;  // rows of a block: enough to use a packed panel well, few enough to balance threads
constexpr int64_t kVectorRows = 256;
constexpr int64_t kChunkTiles = 2;   // few rows: tiles of a part, at least ...
constexpr int64_t kMaxChunks = 128;  // ... and parts of a head, at most. Neither depends on threads: the result does not either

// Products with vectors of the distance take kKeyTile + the queries of a block for each key tile, so they want larger blocks.
int64_t block_rows(const ScoreTerm* score) {
  return score == nullptr || score->by_vectors() == nullptr ? kBlockRows : kVectorRows;
}

class Attention {
 public:
  Attention(const AttentionInputs& inputs, const AttentionOptions& options, const AttentionShape& shape, const HeadsView& out)
      : in_(inputs),
        options_(options),
        shape_(shape),
        out_(out),
        visibility_(inputs, options),
        block_(std::clamp<int64_t>(block_rows(inputs.score) / shape.group, 1, std::max<int64_t>(shape.queries, 1))),
        sides_(in_, shape_, visibility_, block_),
        threads_{options.threads} {}

  Result<void> run() {
    plan_.inputs = &in_;
    plan_.options = &options_;
    plan_.shape = shape_;
    plan_.kernels = &attention_kernels(options_.compute);
    plan_.visibility = &visibility_;
    plan_.sides = &sides_;
    plan_.block = block_;
    plan_.packs_itself = shape_.queries <= block_;
    if (in_.score != nullptr) {
      const PosRange distances = distances_of(in_, options_);
      ROPEWALK_CHECK_OK(in_.score->prepare(distances.first, distances.last));
      ROPEWALK_CHECK_OK(bias_.make(in_, shape_, distances, threads_));
      if (!bias_.empty()) plan_.bias = &bias_;
      if (!plan_.packs_itself) {  // a few queries do not pay for packing a table
        // (q + u) . k: where q meets k as it is, u costs nothing.
        const bool folds = in_.rotary == nullptr && in_.pairs == nullptr && options_.softcap == 0;
        const double multiplier = in_.rotary != nullptr ? in_.rotary->softmax_multiplier : 1.0;
        ROPEWALK_CHECK_OK(vectors_.make(in_, shape_, *plan_.kernels, distances, shape_.scale * multiplier, folds, threads_));
        if (!vectors_.empty()) plan_.vectors = &vectors_;
      }
    }
    if (!plan_.packs_itself) ROPEWALK_CHECK_OK(pack_values());
    for (const QueryRun& run : sides_.runs()) {
      ROPEWALK_CHECK_OK(sides_.prepare(run, threads_));
      if (plan_.packs_itself) {
        ROPEWALK_CHECK_OK(few_rows(run));
      } else {
        ROPEWALK_CHECK_OK(sides_.pack(*plan_.kernels, threads_, bad_keys_.data(), visibility_.tiles() * kKeyTile));
        ROPEWALK_CHECK_OK(many_rows(run));
      }
    }
    return {};
  }

 private:
  Result<void> pack_values() {
    const int64_t tiles = visibility_.tiles();
    const int64_t tile_size = packed_value_tile(*plan_.kernels, shape_.value_dim);
    const int64_t flags = shape_.key_heads * tiles * kKeyTile;
    ROPEWALK_TRY(values_, AlignedBuffer<float>::make(shape_.key_heads * tiles * tile_size));
    ROPEWALK_TRY(bad_keys_, AlignedBuffer<uint8_t>::make(flags));
    ROPEWALK_TRY(bad_values_, AlignedBuffer<uint8_t>::make(flags));
    std::fill_n(bad_keys_.data(), flags, uint8_t{0});
    std::fill_n(bad_values_.data(), flags, uint8_t{0});
    parallel_for(threads_, shape_.key_heads * tiles, [&](int64_t index, int) {
      const int64_t tile = index % tiles;
      const RowSource source = rows_of(in_.v, static_cast<int>(index / tiles), tile * kKeyTile, visibility_.tile_keys(tile));
      plan_.kernels->pack_values(source, values_.data() + index * tile_size, bad_values_.data() + index * kKeyTile);
    });
    plan_.values = values_.data();
    plan_.bad_keys = bad_keys_.data();
    plan_.bad_values = bad_values_.data();
    return {};
  }

  Result<void> make_workers(int64_t items) {
    const auto count = static_cast<size_t>(std::clamp<int64_t>(items, 1, threads_.count));
    while (workers_.size() < count) {
      ROPEWALK_TRY(AttentionWorker worker, AttentionWorker::make(plan_));
      workers_.push_back(std::move(worker));
    }
    return {};
  }

  // The tiles that queries [begin, end) can see anything of.
  std::pair<int64_t, int64_t> tiles_of(int64_t begin, int64_t end) const {
    const TokenRange range = visibility_.query_range(begin, end);
    int64_t first = 0;
    int64_t last = visibility_.tiles();
    while (first < last && !visibility_.may_see(begin, end, range, first)) ++first;
    while (last > first && !visibility_.may_see(begin, end, range, last - 1)) --last;
    return {first, last};
  }

  Result<void> many_rows(const QueryRun& run) {
    const int64_t blocks = (run.end - run.begin + block_ - 1) / block_;
    const int64_t items = blocks * shape_.key_heads;
    ROPEWALK_CHECK_OK(make_workers(items));
    // From the last block to the first: with causal order the long ones come first, and the short ones even out the end.
    parallel_for(threads_, items, [&](int64_t index, int thread) {
      const auto head = static_cast<int>(index / blocks);
      const int64_t begin = run.begin + (blocks - 1 - index % blocks) * block_;
      const int64_t end = std::min(run.end, begin + block_);
      const auto [first, last] = tiles_of(begin, end);
      AttentionWorker& worker = workers_[static_cast<size_t>(thread)];
      worker.run(head, begin, end, first, last);
      worker.finish(out_);
    });
    return {};
  }

  Result<void> few_rows(const QueryRun& run) {
    if (run.begin == run.end) return {};
    const auto [first, last] = tiles_of(run.begin, run.end);
    const int64_t tiles = std::max<int64_t>(last - first, 1);
    const bool in_order = in_.score != nullptr && in_.score->row_state() > 0;  // the tiles of a row: one worker's
    const int64_t chunk = in_order ? tiles : std::max(kChunkTiles, (tiles + kMaxChunks - 1) / kMaxChunks);
    const int64_t chunks = (tiles + chunk - 1) / chunk;
    ROPEWALK_CHECK_OK(make_workers(shape_.key_heads * chunks));
    const int64_t rows = (run.end - run.begin) * shape_.group;
    const int64_t size = rows * (shape_.value_dim + 2);
    AlignedBuffer<float> partials;
    if (chunks > 1) {
      ROPEWALK_TRY(partials, AlignedBuffer<float>::make(shape_.key_heads * chunks * size));
    }
    const auto partial = [&](int64_t index) {
      float* base = partials.data() + index * size;
      return PartialRows{base, base + rows, base + 2 * rows};
    };
    parallel_for(threads_, shape_.key_heads * chunks, [&, first = first, last = last](int64_t index, int thread) {
      AttentionWorker& worker = workers_[static_cast<size_t>(thread)];
      const int64_t begin = first + index % chunks * chunk;
      worker.run(static_cast<int>(index / chunks), run.begin, run.end, begin, std::min(last, begin + chunk));
      if (chunks == 1) {
        worker.finish(out_);
      } else {
        worker.finish(partial(index));
      }
    });
    if (chunks == 1) return {};
    parallel_for(threads_, shape_.key_heads, [&](int64_t head, int) {
      for (int64_t row = 0; row < rows; ++row) merge(run, static_cast<int>(head), row, chunks, partial);
    });
    return {};
  }

  // One row of few_rows: its parts brought to the highest maximum, added in order into the first of them, divided.
  void merge(const QueryRun& run, int head, int64_t row, int64_t chunks, FunctionRef<PartialRows(int64_t)> partial) {
    const int dim = shape_.value_dim;
    float top = kNoMaximum;
    for (int64_t c = 0; c < chunks; ++c) top = std::max(top, partial(head * chunks + c).maximum[row]);
    float sum = 0;
    float* to = partial(int64_t{head} * chunks).out + row * dim;
    for (int64_t c = 0; c < chunks; ++c) {
      const PartialRows part = partial(head * chunks + c);
      // A part that saw nothing is all zeros, whatever its factor.
      const float factor = part.maximum[row] == top ? 1.0F : std::exp2(part.maximum[row] - top);
      sum += part.sum[row] * factor;
      const float* from = part.out + row * dim;
      for (int i = 0; i < dim; ++i) to[i] = (c == 0 ? 0.0F : to[i]) + from[i] * factor;
    }
    store_row(to, sum == 0 ? 0 : 1 / sum, out_, run.begin + row / shape_.group,
              head * shape_.group + static_cast<int>(row % shape_.group));
  }

  const AttentionInputs& in_;
  const AttentionOptions& options_;
  const AttentionShape shape_;
  const HeadsView out_;
  Visibility visibility_;
  int64_t block_;
  Sides sides_;
  Threads threads_;
  AttentionPlan plan_;
  BiasTable bias_;
  VectorTables vectors_;
  AlignedBuffer<float> values_;
  AlignedBuffer<uint8_t> bad_keys_, bad_values_;
  std::vector<AttentionWorker> workers_;
};

}  // namespace

void use_encoding(const PositionEncoding& encoding, AttentionInputs& inputs, AttentionOptions& options) {
  inputs.rotary = encoding.pairs == nullptr && encoding.rotary ? &*encoding.rotary : nullptr;
  inputs.pairs = encoding.pairs.get();
  inputs.score = encoding.score.get();
  inputs.value = encoding.value.get();
  options.reach = encoding.reach;
}

Result<void> attention(const AttentionInputs& inputs, const AttentionOptions& options, HeadsView out) {
  ROPEWALK_TRY(const AttentionShape shape, check_attention("attention", inputs, options, out));
  return Attention(inputs, options, shape, out).run();
}

}  // namespace ropewalk
