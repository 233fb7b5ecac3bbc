#include "ropewalk/error.h"

namespace ropewalk {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kIo: return "i/o";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kTooLarge: return "too large";
    case ErrorCode::kInterrupted: return "interrupted";
  }
  return "unknown";
}

}  // namespace ropewalk
