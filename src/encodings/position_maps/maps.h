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

}  // namespace ropewalk
