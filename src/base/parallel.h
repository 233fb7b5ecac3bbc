// The only file that knows how threads are made: OpenMP (the runtime that oneDNN uses, so there is one pool), or std::thread
// when ROPEWALK_STD_THREADS is set (the TSan preset: OpenMP's runtime is not instrumented and raises false alarms).
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace ropewalk {

// A reference to a callable, without ownership or allocation. The callable must outlive the call it is passed to.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F, std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef>, int> = 0>
  FunctionRef(F&& f)  // NOLINT(google-explicit-constructor)
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

// The threads that a computation may use. Passed down explicitly; no global.
struct Threads {
  int count = 1;
};

// The cores that this process may run on (its affinity mask), at least 1.
int available_cores();

// Calls body(index, thread) once for each index in [0, n), thread in [0, threads.count), handing out one index at a time from 0
// up, so put long items first. Returns when all are done. body must not throw. A nested call runs serially on the calling
// thread, which is thread 0 to it: scratch memory by thread belongs to the call that it was made for.
void parallel_for(Threads threads, int64_t n, FunctionRef<void(int64_t index, int thread)> body);

// Splits [0, n) into at most threads.count contiguous ranges of at least `grain` items (one range when n < 2 grain), whose
// lengths differ by one at most: body(begin, end, thread).
void parallel_ranges(Threads threads, int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end, int thread)> body);

// How many threads a library with its own OpenMP loops (oneDNN) may use when this thread calls it, for the lifetime of the
// object.
class LibraryThreads {
 public:
  explicit LibraryThreads(int count);
  LibraryThreads(const LibraryThreads&) = delete;
  LibraryThreads& operator=(const LibraryThreads&) = delete;
  ~LibraryThreads();

 private:
  int before_ = 1;
};

}  // namespace ropewalk
