// How the library makes and passes on errors: fail(code, "format", ...) and ROPEWALK_TRY.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "ropewalk/error.h"

namespace ropewalk {

template <class... Args>
Error fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ropewalk

#define ROPEWALK_CONCAT_INNER(a, b) a##b
#define ROPEWALK_CONCAT(a, b) ROPEWALK_CONCAT_INNER(a, b)

// ROPEWALK_TRY(auto x, f()): x = the value of f(), or returns its error from the enclosing function.
#define ROPEWALK_TRY(declaration, expression)                                                 \
  auto ROPEWALK_CONCAT(result_, __LINE__) = (expression);                                     \
  if (!ROPEWALK_CONCAT(result_, __LINE__)) return ROPEWALK_CONCAT(result_, __LINE__).error(); \
  declaration = *std::move(ROPEWALK_CONCAT(result_, __LINE__))

// ROPEWALK_CHECK_OK(f()): returns the error of f(), a Result<void>, from the enclosing function.
#define ROPEWALK_CHECK_OK(expression)                                        \
  do {                                                                       \
    if (auto result_ok = (expression); !result_ok) return result_ok.error(); \
  } while (false)
