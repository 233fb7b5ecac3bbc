// Positions with several axes: images and video in a text (mRoPE), patches of an image (2D).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ropewalk/api.h"
#include "ropewalk/error.h"
#include "ropewalk/rotary.h"

namespace ropewalk {

// RotarySchedule::axis for sections of planes, one an axis (a last section of 0 planes, as GGUF stores, changes nothing).
// turns = false: one section after another (Qwen2-VL). turns = true: plane i is axis i mod 3 while that axis has planes left by
// its section (i < 3 section), else axis 0 (Qwen3-VL); three axes. Plane i keeps its frequency either way. Errors:
// kInvalidArgument for sections that are negative or do not sum to `planes`.
ROPEWALK_API Result<std::vector<uint8_t>> axis_of_planes(std::span<const int> sections, int planes, bool turns);

// A run of text tokens, or an image (or `frames` frames of video) of rows x cols patches.
struct AxisPart {
  int64_t text = 0;
  int64_t rows = 0, cols = 0, frames = 1;
};

struct AxisPositions {
  std::vector<int64_t> positions;  // [3][T]: time, height, width
  int64_t next = 0;                // where the text goes on
  int64_t delta = 0;               // next - (first + T): what decoding adds to the index of a token of this sequence
};

// mRoPE's positions (Wang et al. 2024, arXiv:2409.12191, section 2.1): text counts up on all axes; an image that starts at p
// has time p + frame, height p + row, width p + col, patches row by row, and takes max(frames, rows, cols) positions. Errors:
// kInvalidArgument for negative sizes, a part that is both or neither; kTooLarge beyond 2^31 positions.
ROPEWALK_API Result<AxisPositions> axis_positions(std::span<const AxisPart> parts, int64_t first = 0);

// A schedule over (row, column), halves pairing: the first half of the planes has axis 0. alternate: frequencies
// theta^(-2i/D) shared out in turns (Pixtral); else theta^(-4i/D) for both (Qwen2-VL's vision tower). D a multiple of 4.
ROPEWALK_API Result<RotarySchedule> make_rotary_2d(double theta, int dim, bool alternate);

}  // namespace ropewalk
