// The boundary: every argument of attention and attention_reference is checked here, once; what lies below trusts it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ropewalk/attention.h"

namespace ropewalk {

struct AttentionShape {
  int64_t queries = 0;  // T
  int64_t keys = 0;     // S
  int heads = 0;        // H
  int key_heads = 0;    // Hkv
  int group = 0;        // g = H / Hkv
  int dim = 0;          // D
  int value_dim = 0;    // Dv
  double scale = 1;     // of the softmax, the schedule's multiplier not yet in it
};

// Errors: kInvalidArgument, "[who] what: expected ..., but got ...".
Result<AttentionShape> check_attention(std::string_view who, const AttentionInputs& inputs, const AttentionOptions& options,
                                       const HeadsView& out);

// A range that holds d = m - n of every visible pair: of all pairs, or, where positions just count up, not far beyond causal
// order and window; 0 and 0 when there are none.
PosRange distances_of(const AttentionInputs& inputs, const AttentionOptions& options);

// Each position is the one before it plus 1.
bool counts_up(std::span<const int64_t> positions);

// [tiles] 1: the keys of the tile stand at consecutive positions.
std::vector<uint8_t> consecutive_tiles(std::span<const int64_t> k_pos);

// A schedule that fits a head of `dim`.
Result<void> check_schedule(std::string_view who, const RotarySchedule& schedule, int dim);

}  // namespace ropewalk
