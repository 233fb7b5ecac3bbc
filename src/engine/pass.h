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

// Attention with the model's scale and caps under the layer's scheme. `inputs` brings q, k, v, positions and q_index, and
// whether the keys are rotated; schedule or pairs are added here. out [T][H][D].
Result<void> attend(const ModelSpec& spec, const AppliedLayer& position, AttentionInputs inputs, const ForwardOptions& options,
                    HeadsView out);

}  // namespace ropewalk
