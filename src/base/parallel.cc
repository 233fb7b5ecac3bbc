#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>

#if defined(ROPEWALK_STD_THREADS)
#include <system_error>
#include <thread>
#include <vector>
// From the runtime that oneDNN brings, when it does: this build links none itself.
extern "C" {
__attribute__((weak)) void omp_set_num_threads(int count);
__attribute__((weak)) int omp_get_max_threads();
}
#else
#include <omp.h>
#endif

namespace ropewalk {

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

#if defined(ROPEWALK_STD_THREADS)
namespace {
thread_local bool inside_parallel = false;
}

void parallel_for(Threads threads, int64_t n, FunctionRef<void(int64_t, int)> body) {
  const int workers = static_cast<int>(std::min<int64_t>(threads.count, n));
  if (workers <= 1 || inside_parallel) {
    for (int64_t i = 0; i < n; ++i) body(i, 0);
    return;
  }
  std::atomic<int64_t> next{0};
  const auto work = [&](int thread) {
    inside_parallel = true;
    for (int64_t i; (i = next.fetch_add(1)) < n;) body(i, thread);
    inside_parallel = false;
  };
  std::vector<std::thread> others;
  others.reserve(static_cast<size_t>(workers - 1));
  try {
    for (int t = 1; t < workers; ++t) others.emplace_back(work, t);
  } catch (const std::system_error&) {  // no more threads to be had: those that are there do the work
  }
  work(0);
  for (auto& other : others) other.join();
}
#else
void parallel_for(Threads threads, int64_t n, FunctionRef<void(int64_t, int)> body) {
  const int workers = static_cast<int>(std::min<int64_t>(threads.count, n));
  if (workers <= 1 || omp_in_parallel()) {
    for (int64_t i = 0; i < n; ++i) body(i, 0);
    return;
  }
  std::atomic<int64_t> next{0};
#pragma omp parallel num_threads(workers)
  {
    const int thread = omp_get_thread_num();
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) body(i, thread);
  }
}
#endif

void parallel_ranges(Threads threads, int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t, int)> body) {
  if (n <= 0) return;
  const int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, std::max(threads.count, 1));
  const int64_t size = n / parts;  // at least grain; the first `longer` ranges have one item more
  const int64_t longer = n % parts;
  parallel_for(threads, parts, [&](int64_t part, int thread) {
    const int64_t begin = part * size + std::min(part, longer);
    body(begin, begin + size + (part < longer ? 1 : 0), thread);
  });
}

LibraryThreads::LibraryThreads(int count) {
#if defined(ROPEWALK_STD_THREADS)
  if (omp_set_num_threads == nullptr || omp_get_max_threads == nullptr) return;
#endif
  before_ = omp_get_max_threads();
  omp_set_num_threads(count);
}

LibraryThreads::~LibraryThreads() {
#if defined(ROPEWALK_STD_THREADS)
  if (omp_set_num_threads == nullptr) return;
#endif
  omp_set_num_threads(before_);
}

}  // namespace ropewalk
