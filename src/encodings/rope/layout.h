// Which rows of a projection a pairing wants where, and which layers of a model rotate at all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ropewalk/error.h"
#include "ropewalk/rotary.h"

namespace ropewalk {

// new row r is old row rows[r]: what makes the rows of Wq or Wk (of their biases, and of a norm weight between projection and
// rotation) fit a kernel of pairing `to`, from the other one. Head by head; rows outside of the rotated slice stay. The two
// directions undo each other. heads: of this tensor (keys have their own number). Errors: kInvalidArgument.
Result<std::vector<int64_t>> rows_for_pairing(int heads, int head_dim, Slice rotated, Pairing to);

// [layers] true: the layer rotates. flags: SmolLM3's and Llama 4's no_rope_layers, where 1 means that the layer does rotate
// (empty: none given); else every interval-th layer does not (0: all rotate). Errors: kInvalidArgument for flags of another
// number or other values than 0 and 1.
Result<std::vector<bool>> rotating_layers(int64_t layers, std::span<const int64_t> flags, int64_t interval);

}  // namespace ropewalk
