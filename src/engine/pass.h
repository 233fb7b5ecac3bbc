// Steps that scoring and generation share.
#pragma once

#include <cstdint>
#include <span>

#include "engine/forward.h"
#include "ropewalk/attention.h"

namespace ropewalk {

Result<void> check_tokens(const ModelSpec& spec, std::span<const int32_t> tokens);
Result<void> check_positions(const ModelSpec& spec, const LayerPositions& positions);

// x [T][C] = scaled embedding rows. Errors: kCorrupt for a row that is not finite.
Result<void> embed(const Model& model, std::span<const int32_t> tokens, int threads, float* x);

// q [T][H][D] against k, v [S][Hkv][D]: the first query is key number q_index; token i stands at positions[i].
struct AttentionCall {
  ConstHeadsView q, k, v;
  int64_t q_index = 0;
  std::span<const int64_t> positions;
  bool rotated = false;  // q and k are rotated already, and q has its temperature: a cache of rotated keys
  HeadsView out;
};
Result<void> attend(const ModelSpec& spec, const AppliedLayer& position, const AttentionCall& call,
                    const ForwardOptions& options);

}  // namespace ropewalk
