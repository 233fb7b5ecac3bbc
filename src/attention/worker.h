// One thread's passage of a block of queries over key tiles: scores, softmax, sum of values. Owns its scratch memory.
#pragma once

#include <cstdint>
#include <optional>

#include "attention/bias_table.h"
#include "attention/inputs.h"
#include "attention/sides.h"
#include "attention/vector_rows.h"
#include "attention/visibility.h"
#include "base/aligned.h"
#include "simd/attention_kernels.h"

namespace ropewalk {

// What all threads share during a call. Keys and values are packed beforehand, or (packs_itself) by each worker as it meets a
// tile.
struct AttentionPlan {
  const AttentionInputs* inputs = nullptr;
  const AttentionOptions* options = nullptr;
  AttentionShape shape;
  const AttentionKernels* kernels = nullptr;
  const Visibility* visibility = nullptr;
  const Sides* sides = nullptr;
  int64_t block = 1;  // queries of a block, at most
  bool packs_itself = false;
  const BiasTable* bias = nullptr;        // of a score term that depends on the distance alone
  const VectorTables* vectors = nullptr;  // of a score term of products with vectors of the distance
  const float* values = nullptr;          // [Hkv][tiles][packed_value_tile]
  const uint8_t* bad_keys = nullptr;      // [Hkv][tiles * kKeyTile]: NaN or infinity inside
  const uint8_t* bad_values = nullptr;
};

// The state of a block after some of its tiles, in units of 2^maximum: what can be merged.
struct PartialRows {
  float* maximum = nullptr;  // [rows]
  float* sum = nullptr;      // [rows]
  float* out = nullptr;      // [rows][Dv]
};

// One finished row, times a factor, in the dtype of out.
void store_row(const float* x, float factor, const HeadsView& out, int64_t token, int head);

class AttentionWorker {
 public:
  // Errors: kTooLarge.
  static Result<AttentionWorker> make(const AttentionPlan& plan);

  // Queries [begin, end) of key head `head` over tiles [first_tile, last_tile), from the last to the first.
  void run(int head, int64_t begin, int64_t end, int64_t first_tile, int64_t last_tile);
  // After run: the finished rows, or what is to be merged with other tiles.
  void finish(const HeadsView& out);
  void finish(const PartialRows& partial);

 private:
  void start(int head, int64_t begin, int64_t end);
  void tile(int64_t tile);
  void general_weights(int64_t tile, const PairMap::Choice& choice, Visibility::Kind kind, int cols, bool biased);
  void hide(Visibility::Kind kind, int cols);
  enum class Term : uint8_t { kScore, kRest, kValue };
  void add_terms(int64_t tile, int cols, Term which);
  void collect_bad(int64_t tile, Visibility::Kind kind);
  void set_row_ranges();
  bool set_row_biases(int64_t tile);
  bool fill_pair_rows(const PairTerm& term, int64_t tile);
  void add_biases(int cols);
  void select_sides(int64_t tile, const PairMap::Choice& choice, int cols);
  const void* queries(uint64_t side, int64_t tile);
  RowRotation decayed(const Side& side, const RowRotation& rotation, int64_t begin, int64_t count, int64_t tile);
  const void* keys(int slot, uint64_t side, int64_t tile);
  const void* values(int64_t tile);
  float row_sum(int row) const;
  float* state(int64_t offset) { return scratch_.data() + offset; }

  const AttentionPlan* plan_ = nullptr;
  RowBlock rows_;
  AlignedBuffer<float> scratch_;
  AlignedBuffer<uint8_t> bytes_;
  std::optional<VectorRows> vectors_;
  // Parts of scratch_.
  float* query_slots_[PairMap::Choice::kMost] = {};
  float* scores_[PairMap::Choice::kMost] = {};
  float* raw_queries_ = nullptr;  // [rows][D], for terms
  float* folded_ = nullptr;       // [rows][D]: raw queries with the vector that a VectorTerm adds for every key
  float* raw_keys_ = nullptr;     // [kKeyTile][D]
  float* decay_ = nullptr;        // [2][kKeyTile][planes]: cos and sin of queries with their decay
  double* state_ = nullptr;       // [rows][row_state()]
  float* poison_ = nullptr;       // [rows][Dv]: what NaN and infinity in values add
  float* key_slots_[PairMap::Choice::kMost] = {};  // packs_itself
  float* value_slot_ = nullptr;
  const float** bias_ = nullptr;  // [rows]
  float* pair_rows_ = nullptr;    // [rows][kWeightStride], where the score term gives biases by both positions
  int32_t* first_ = nullptr;      // [rows]
  int32_t* last_ = nullptr;
  int32_t* query_first_ = nullptr;  // [queries]
  int32_t* query_last_ = nullptr;
  // Parts of bytes_.
  uint8_t* seen_ = nullptr;         // [queries][kKeyTile]
  uint8_t* bad_queries_ = nullptr;  // [rows]
  uint8_t* lost_ = nullptr;         // [rows] sees a bad key
  uint8_t* tile_bad_keys_ = nullptr;
  uint8_t* tile_bad_values_ = nullptr;

  int head_ = 0;
  int64_t begin_ = 0;
  int64_t end_ = 0;
  TokenRange range_;
  uint64_t query_side_[PairMap::Choice::kMost] = {};
  bool query_ready_[PairMap::Choice::kMost] = {};
  int next_slot_ = 0;
  bool poisoned_ = false;
};

}  // namespace ropewalk
