// a . b in the type of the scores that it is added to: float (SIMD), or double for the reference.
#pragma once

#include "simd/ops.h"

namespace ropewalk {

template <class T>
T dot_as(const float* a, const float* b, int n) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return ops::dot(a, b, n);
  } else {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
  }
}

}  // namespace ropewalk
