// attention_reference with its result as it is formed: double. For checks of gradients.
#pragma once

#include <vector>

#include "ropewalk/attention.h"

namespace ropewalk {

// [T][H][Dv]. `shape` gives the sizes of the output; its data is not touched.
Result<std::vector<double>> attention_reference_double(const AttentionInputs& inputs, const AttentionOptions& options,
                                                       const HeadsView& shape);

}  // namespace ropewalk
