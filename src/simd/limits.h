// The loops that find the machine's own limits: nothing but loads, a load-multiply-store, or products in registers.
// What a kernel reaches is a fraction of these, measured in the same run.
#pragma once

#include <cstdint>
#include <span>

namespace ropewalk {

// Reads every element once, on one thread, and returns the exclusive or of their bits (so that no load can be left out).
// Size a multiple of 256 elements; the rest is not read.
uint32_t read_all(std::span<const float> values);

// values[i] *= factor, on one thread. Size a multiple of 256 elements; the rest is left alone.
void scale_in_place(std::span<float> values, float factor);

// Multiply-adds on registers only, on one thread: `rounds` rounds of independent chains. Returns the floating-point operations
// done (2 for each multiply-add and lane). On targets without FMA a multiplication and an addition stand in for it.
// `sink` receives a value that depends on every chain: the sum over the 12 chains of x -> x / 2 + b after `rounds` rounds,
// where b = 0.5 + 0.001 * lanes; it tends to 24 b.
double multiply_add_f32(int64_t rounds, float& sink);

// An instruction for products in bf16 that this processor has, and what a round with it does: operations, and what is added to
// one lane. `run` is as multiply_add_f32; `sink` receives sum * rounds (exact up to 2^24).
struct Bf16Unit {
  const char* instruction = nullptr;  // "tdpbf16ps" (AMX), "vdpbf16ps" (AVX512_BF16)
  double operations = 0;
  float sum = 0;
  double (*run)(int64_t rounds, float& sink) = nullptr;
};
// The one that attention uses first; empty where there is none.
std::span<const Bf16Unit> bf16_units();

}  // namespace ropewalk
