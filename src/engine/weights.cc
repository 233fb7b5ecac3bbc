#include "engine/weights.h"

#include "base/fail.h"
#include "simd/ops.h"

namespace ropewalk {

Result<void> expand_rows(const StoredTensor& tensor, int64_t first, int64_t count, const std::string& path, float* out) {
  dequantize_rows(tensor, first, count, out);
  const int64_t cols = tensor.cols();
  const int64_t bad = ops::first_non_finite(out, count * cols);
  if (bad < 0) return {};
  return fail(ErrorCode::kCorrupt, "[engine] {}: tensor {}: expected finite weights, but got {} at row {}, column {}", path,
              tensor.name, out[bad], first + bad / cols, bad % cols);
}

Result<std::vector<float>> expand_vector(const StoredTensor* tensor, const std::string& path) {
  std::vector<float> values;
  if (tensor == nullptr) return values;
  values.resize(static_cast<size_t>(tensor->elements()));
  ROPEWALK_CHECK_OK(expand_rows(*tensor, 0, tensor->rows(), path, values.data()));
  return values;
}

}  // namespace ropewalk
