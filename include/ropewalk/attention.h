// Softmax attention with any position encoding, in O(T + S) memory.
//
//   s_mn = scale * (q_m . k_n), soft cap, + score term;  a = softmax over the visible keys;  o_m = sum_n a_mn (v_n + value
//   term)
//
// Shapes: q [T][H][D], k [S][Hkv][D], v [S][Hkv][Dv], out [T][H][Dv]; H = g * Hkv (grouped queries: head h reads key head h /
// g).
#pragma once

#include <cstdint>
#include <span>

#include "ropewalk/encoding.h"
#include "ropewalk/rotary.h"

namespace ropewalk {

struct AttentionOptions {
  double scale = 0;             // 0 = 1/sqrt(D)
  bool causal = true;           // key j is visible to query i iff j <= q_index + i (order in memory, whatever the positions)
  Reach reach;                  // which of those keys a query sees by their positions
  double softcap = 0;           // 0 = none; else s = softcap * tanh(s / softcap)
  DType compute = DType::kF32;  // kF32 or kBF16: the type of the products' inputs; sums and softmax statistics are f32
  int threads = 1;
};

struct AttentionInputs {
  ConstHeadsView q, k, v;
  std::span<const int64_t> q_pos;      // [T] m
  std::span<const int64_t> k_pos;      // [S] n
  int64_t q_index = 0;                 // index of the first query among the keys (a cache of 100 keys before it: 100)
  std::span<const int32_t> q_segment;  // [T], [S] or both empty: documents packed in one row. Tokens see their own segment;
  std::span<const int32_t> k_segment;  //   segment < 0 is padding: it sees nothing (output 0) and is never seen
  const uint8_t* mask = nullptr;       // [T][S] or null: further restriction, 0 = hidden (draft trees, where T is small)
  int64_t mask_stride = 0;
  std::span<const int32_t> q_type;  // [T], [S] or both empty: kinds of tokens, for terms that look at them
  std::span<const int32_t> k_type;
  std::span<const int64_t> q_axes;  // [axes][T], [axes][S] or both empty: what a schedule with axes turns by; empty: every axis
  std::span<const int64_t> k_axes;  //   by q_pos and k_pos
  const RotarySchedule* rotary = nullptr;  // not null: q and k come un-rotated and are rotated here, by q_pos and k_pos
  bool k_rotated = false;                  // with rotary: k comes rotated (a cache that holds rotated keys), q does not
  const ScoreTerm* score = nullptr;
  const ValueTerm* value = nullptr;
  const PairMap* pairs = nullptr;  // not null: q and k come un-rotated; `rotary` must be null
};

// Tiled, online softmax, on the best SIMD target of this machine. Any T >= 0, S >= 0, D and Dv in [1, 512].
// A query that sees no key gets 0. Errors: kInvalidArgument (shapes, dtypes, H not a multiple of Hkv), kTooLarge (scratch
// memory). Determinism: the same threads give the same bytes; so do other thread counts. NaN (or infinity) in a visible key or
// query gives NaN, in a visible value NaN (infinity) in its dims; hidden tokens may hold anything. The schedule's softmax
// multiplier and query temperature are applied where q is rotated here; a caller who rotates q has them in q and scale.
// Positions: |m|, |n| <= 2^61, and what make_rotary_table takes where they rotate.
ROPEWALK_API Result<void> attention(const AttentionInputs& inputs, const AttentionOptions& options, HeadsView out);

// Gradients of a loss by the inputs of attention, f32, in the shapes of q, k and v; written. Null data: not wanted. `encoding`:
// by the weights of the score and value term, added to what it holds.
struct AttentionGradients {
  HeadsView q, k, v;
  EncodingGradients* encoding = nullptr;
};

// From the gradient by `out`, any dtype. Nothing of a forward pass is needed: weights are formed again. Memory O(T + S) beside
// the gradients; the same bytes for any thread count. NaN and infinity in visible tokens spread as arithmetic has it. Errors:
// as attention.
ROPEWALK_API Result<void> attention_backward(const AttentionInputs& inputs, const AttentionOptions& options,
                                             ConstHeadsView out_gradient, const AttentionGradients& gradients);

// Attention over complex numbers (ropewalk/complex.h) with the softmax of Re <q, k> and of Im <q, k> apart: out = (softmax(Re)
// + i softmax(Im)) v, v complex too. D and Dv even, q and out f32, neither rotation nor terms. Errors: as attention.
ROPEWALK_API Result<void> complex_attention_split(const AttentionInputs& inputs, const AttentionOptions& options,
                                                  Pairing pairing, HeadsView out);

// The oracle: naive, double precision, O(S) memory a row, readable. Same inputs; out may be f32 only.
ROPEWALK_API Result<void> attention_reference(const AttentionInputs& inputs, const AttentionOptions& options, HeadsView out);

// What acts in a layer, as attention takes it: the rotation or pair map, the terms and the reach. The encoding must outlive
// the inputs.
ROPEWALK_API void use_encoding(const PositionEncoding& encoding, AttentionInputs& inputs, AttentionOptions& options);

}  // namespace ropewalk
