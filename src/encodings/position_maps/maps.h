// Rules that change distances pair by pair: near pairs (d < window) keep them, far ones are rotated at other positions.
#pragma once

#include <cstdint>
#include <memory>

#include "ropewalk/encoding.h"

namespace ropewalk {

// Self-Extend (Jin et al. 2024, arXiv:2401.01325): far pairs stand at (floor(m/G) + W - floor(W/G), floor(n/G)).
std::shared_ptr<const PairMap> make_self_extend(const RotarySchedule& schedule, int64_t group, int64_t window);

// ReRoPE (Su 2023): far pairs are all W apart. Leaky: W + (d - W)/leak apart; leak = 1 is plain RoPE. leak = 0: not leaky.
std::shared_ptr<const PairMap> make_rerope(const RotarySchedule& schedule, int64_t window, double leak);

// Attention sinks (Xiao et al. 2023, arXiv:2309.17453): positions are places in a cache that keeps the first `sinks` keys and
// the last `window`. Which keys are seen is the Reach {window, sinks}.
std::shared_ptr<const PairMap> make_sinks(const RotarySchedule& schedule, int64_t sinks, int64_t window);

// Dual chunk attention (An et al. 2024, arXiv:2402.17463), chunks of s positions, `trained` = c: keys stand at n mod s; queries
// at m mod s for keys of their own chunk; for the chunk before at min(m mod s + s, c - 1) where m mod s < window, else at c -
// 1; for older ones at c - 1.
std::shared_ptr<const PairMap> make_dual_chunk(const RotarySchedule& schedule, int64_t chunk, int64_t window, int64_t trained);

}  // namespace ropewalk
