// What `ropewalk bench` can run.
#pragma once

#include <string>
#include <vector>

#include "ropewalk/dtype.h"
#include "ropewalk/rotary.h"
#include "workbench/bench/bench.h"

namespace ropewalk {

// Each measures the limit that its work is bound by, in turns with it. Errors: kTooLarge (memory), kInterrupted,
// kInvalidArgument.
Result<BenchReport> bench_stream(const BenchOptions& options, const Control& control);
Result<BenchReport> bench_peak(const BenchOptions& options, const Control& control);

}  // namespace ropewalk
