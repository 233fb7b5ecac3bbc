// What `vectors` prints: numbers that another engine can test its rotation against.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ropewalk/error.h"
#include "ropewalk/rotary.h"

namespace ropewalk::app {

struct VectorsRequest {
  std::string subject;                 // a setting, or a .gguf file, a Hugging Face folder, a config.json
  std::vector<int64_t> positions;      // [P]
  std::string setting = "none";        // applied to a file
  int64_t layer = -1;                  // of a file; -1 = the first global layer that rotates
  int head_dim = 128, rotary_dim = 0;  // of a setting's schedule; rotary_dim 0 = the whole head
  double theta = 10000;
  int64_t trained = 4096;
  Pairing pairing = Pairing::kHalves;
  Profile profile = Profile::kExact;
  uint64_t seed = 0;
};

struct Vectors {
  std::string setting;                    // canonical
  std::vector<int64_t> positions;         // [P]
  std::vector<RotarySchedule> schedules;  // one for all positions, or one a position where the rule goes by steps
  int head_dim = 0;
  int64_t layer = -1;                            // of a file; -1 = none
  double scale = 1;                              // softmax scale, the schedule's multiplier left out
  std::vector<std::vector<float>> cos, sin;      // [P][R/2]
  std::vector<std::vector<float>> q, q_rotated;  // [P][D]
  // [P][P] row m, column n: scale * softmax_multiplier * temperature(m) * q_m . q_n, both rotated by the schedule of row m.
  std::vector<std::vector<double>> scores;
  std::vector<std::string> notes;

  const RotarySchedule& schedule(size_t row) const { return schedules.size() == 1 ? schedules[0] : schedules[row]; }
};

// Errors: those of the setting, the file and the positions.
Result<Vectors> make_vectors(const VectorsRequest& request);

nlohmann::json vectors_body(const Vectors& vectors);
std::string vectors_text(const Vectors& vectors);

}  // namespace ropewalk::app
