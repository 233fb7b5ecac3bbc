// Keys and values of one attention layer and one sequence, for generation: a chunk of the prompt or one token at a time.
//
// Keys are kept rotated (a schedule that never changes: the cheap way to read) or as they come (a pair map, a schedule that
// follows the length: rotated on read). Frequencies belong to the sequence: a cache of rotated keys cannot follow a change of
// schedule.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "ropewalk/attention.h"
#include "ropewalk/error.h"
#include "ropewalk/rotary.h"

namespace ropewalk {

struct KvCacheOptions {
  int64_t capacity = 0;  // tokens
  int heads = 1;         // Hkv
  int dim = 0;           // D
  int value_dim = 0;     // Dv
  DType dtype = DType::kF32;
  std::optional<RotarySchedule>
      rotary;  // keys are rotated by it, in f32, before they are rounded to dtype; none: kept as they come
};

class ROPEWALK_API KvCache {
 public:
  // What make() will take. Errors: kInvalidArgument (sizes), kTooLarge (no int64 holds the number).
  static Result<int64_t> memory(const KvCacheOptions& options);
  // Takes all of it at once. Errors: those of memory(); kTooLarge when it is not to be had.
  static Result<KvCache> make(KvCacheOptions options);

  KvCache(KvCache&&) noexcept;
  KvCache& operator=(KvCache&&) noexcept;
  ~KvCache();

  // Adds tokens behind the last one: k [n][Hkv][D] not rotated, v [n][Hkv][Dv], any dtype, any n >= 0; positions [n].
  // Errors: kTooLarge (capacity), kInvalidArgument (shapes, positions out of range). After an error the cache is as before.
  Result<void> append(ConstHeadsView k, ConstHeadsView v, std::span<const int64_t> positions);

  // Forgets the tokens from `length` on (a rejected draft). Errors: kInvalidArgument when there are fewer.
  Result<void> truncate(int64_t length);
  void reset() noexcept;

  int64_t length() const noexcept;
  int64_t capacity() const noexcept;
  bool keys_rotated() const noexcept;

  // Views of what is held, valid until the next append, truncate or reset: keys [length][Hkv][D], contiguous.
  ConstHeadsView keys() const noexcept;
  ConstHeadsView values() const noexcept;
  std::span<const int64_t> positions() const noexcept;

  // Inputs of attention with this cache's part filled in: k, v, k_pos, and with rotated keys also rotary and k_rotated. The
  // last `queries` tokens of the cache are the queries: q_index and q_pos are theirs; the caller adds q, and `pairs` or
  // `rotary` where keys are not rotated. Any split of a sequence into chunks gives what one pass gives, but for the order of
  // sums: with u = 2^-24 and f32, the two differ by no more than twice the error of either against exact arithmetic (about 2
  // sqrt(D) u |q||k| scale |v| each). Precondition: 0 <= queries <= length().
  AttentionInputs inputs(int64_t queries) const;

 private:
  struct State;
  explicit KvCache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ropewalk
