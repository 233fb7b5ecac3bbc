// Stored tensors as f32, checked to be finite on the way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/tensor.h"
#include "ropewalk/error.h"

namespace ropewalk {

// out [count][cols] = the rows [first, first + count) of the matrix. `path` is for messages.
// Errors: kCorrupt, naming file, tensor, element and value, when one is NaN or infinite.
Result<void> expand_rows(const StoredTensor& tensor, int64_t first, int64_t count, const std::string& path, float* out);

// A whole (small) tensor; an empty vector for null.
Result<std::vector<float>> expand_vector(const StoredTensor* tensor, const std::string& path);

}  // namespace ropewalk
