// The smallest user of the library: rotates queries and keys, attends, and looks at an error.
#include <ropewalk/attention.h>
#include <ropewalk/error.h>
#include <ropewalk/rotary.h>
#include <ropewalk/version.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

namespace rw = ropewalk;

int main() {
  constexpr int kTokens = 5, kHeads = 2, kDim = 8;
  const auto schedule = rw::make_rotary_schedule(10000.0, kDim, kDim, rw::Pairing::kHalves);
  if (!schedule) return std::printf("%s\n", schedule.error().what()), 1;
  std::vector<int64_t> positions(kTokens);
  std::iota(positions.begin(), positions.end(), 100);
  const auto table = rw::make_rotary_table(*schedule, positions);
  if (!table) return std::printf("%s\n", table.error().what()), 1;

  // A rotation keeps the length of every head.
  std::vector<float> q(kTokens * kHeads * kDim, 0.5F), rotated(q.size());
  const auto rotation = rw::rotate(*schedule, *table, rw::heads_view(q.data(), kTokens, kHeads, kDim),
                                   rw::heads_view(rotated.data(), kTokens, kHeads, kDim));
  if (!rotation) return std::printf("%s\n", rotation.error().what()), 1;
  double length = 0;
  for (int i = 0; i < kDim; ++i) length += static_cast<double>(rotated[i]) * rotated[i];
  if (std::fabs(length - kDim * 0.25) > 1e-5) return std::printf("expected length^2 2, but got %g\n", length), 1;

  // Attention over equal values gives that value.
  std::vector<float> v(q.size(), 3.0F), out(q.size());
  rw::AttentionInputs inputs;
  inputs.q = inputs.k = rw::heads_view(rotated.data(), kTokens, kHeads, kDim);
  inputs.v = rw::heads_view(v.data(), kTokens, kHeads, kDim);
  inputs.q_pos = inputs.k_pos = positions;
  const auto attended = rw::attention(inputs, {}, rw::heads_view(out.data(), kTokens, kHeads, kDim));
  if (!attended) return std::printf("%s\n", attended.error().what()), 1;
  for (const float x : out) {
    if (std::fabs(x - 3.0F) > 1e-5F) return std::printf("expected 3, but got %g\n", static_cast<double>(x)), 1;
  }

  const auto bad = rw::make_rotary_schedule(10000.0, 7, kDim, rw::Pairing::kHalves);
  if (bad || bad.error().code() != rw::ErrorCode::kInvalidArgument) return std::printf("expected an odd width refused\n"), 1;
  try {
    bad.value();
    return std::printf("expected value() to throw\n"), 1;
  } catch (const rw::Error& error) {  // the type must be one across the border of the shared library
    std::printf("ropewalk %s: %s\n", ROPEWALK_VERSION, error.what());
  }
}
