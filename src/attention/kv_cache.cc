#include "ropewalk/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "attention/inputs.h"
#include "base/aligned.h"
#include "base/fail.h"
#include "simd/attention_kernels.h"

namespace ropewalk {
namespace {

constexpr int64_t kPiece = 64;  // tokens that are rotated at a time: the f32 copy stays small

void to_floats(const ConstHeadsView& from, int64_t token, int head, float* to) {
  const int64_t at = token * from.token_stride + head * from.head_stride;
  for (int i = 0; i < from.dim; ++i) {
    switch (from.dtype) {
      case DType::kF32: to[i] = static_cast<const float*>(from.data)[at + i]; break;
      case DType::kF16: to[i] = to_f32(static_cast<const f16_t*>(from.data)[at + i]); break;
      case DType::kBF16: to[i] = to_f32(static_cast<const bf16_t*>(from.data)[at + i]); break;
    }
  }
}

void from_floats(const float* from, int64_t count, DType dtype, void* to, int64_t at) {
  for (int64_t i = 0; i < count; ++i) {
    switch (dtype) {
      case DType::kF32: static_cast<float*>(to)[at + i] = from[i]; break;
      case DType::kF16: static_cast<f16_t*>(to)[at + i] = to_f16(from[i]); break;
      case DType::kBF16: static_cast<bf16_t*>(to)[at + i] = to_bf16(from[i]); break;
    }
  }
}

Result<void> check_options(const KvCacheOptions& options) {
  const auto in_range = [](int dim) { return dim >= 1 && dim <= kMaxHeadDim; };
  if (options.capacity < 0) {
    return fail(ErrorCode::kInvalidArgument, "[kv_cache] capacity: expected at least 0 tokens, but got {}", options.capacity);
  }
  if (options.heads < 1 || !in_range(options.dim) || !in_range(options.value_dim)) {
    return fail(ErrorCode::kInvalidArgument,
                "[kv_cache] shape: expected at least 1 head and sizes of 1 to {}, but got {} heads of {} and {}", kMaxHeadDim,
                options.heads, options.dim, options.value_dim);
  }
  if (options.rotary) ROPEWALK_CHECK_OK(check_schedule("kv_cache", *options.rotary, options.dim));
  return {};
}

}  // namespace

struct KvCache::State {
  KvCacheOptions options;
  AlignedBuffer<std::byte> keys, values;
  AlignedBuffer<int64_t> positions;
  int64_t length = 0;

  ConstHeadsView view(const AlignedBuffer<std::byte>& buffer, int dim) const {
    ConstHeadsView view;
    view.data = buffer.data();
    view.dtype = options.dtype;
    view.tokens = length;
    view.heads = options.heads;
    view.dim = dim;
    view.token_stride = int64_t{options.heads} * dim;
    view.head_stride = dim;
    return view;
  }

  // Rounds tokens [begin, begin + count) of `from` into the buffer; rotated where the schedule is not null.
  Result<void> store(const ConstHeadsView& from, int64_t begin, int64_t count, const RotarySchedule* schedule,
                     std::span<const int64_t> at, AlignedBuffer<std::byte>& to) {
    const int64_t width = int64_t{options.heads} * from.dim;
    std::vector<float> rows(static_cast<size_t>(count * width));
    for (int64_t t = 0; t < count; ++t) {
      for (int h = 0; h < options.heads; ++h) to_floats(from, begin + t, h, rows.data() + t * width + int64_t{h} * from.dim);
    }
    if (schedule != nullptr) {
      ROPEWALK_TRY(const RotaryTable table, make_rotary_table(*schedule, at));
      const HeadsView all = heads_view(rows.data(), count, options.heads, from.dim);
      ROPEWALK_CHECK_OK(rotate(*schedule, table, all, all));
    }
    from_floats(rows.data(), count * width, options.dtype, to.data(), (length + begin) * width);
    return {};
  }
};

Result<int64_t> KvCache::memory(const KvCacheOptions& options) {
  ROPEWALK_CHECK_OK(check_options(options));
  const auto token = static_cast<int64_t>(size_of(options.dtype)) * options.heads * (int64_t{options.dim} + options.value_dim) +
                     static_cast<int64_t>(sizeof(int64_t));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(token, options.capacity, &bytes)) {
    return fail(ErrorCode::kTooLarge, "[kv_cache] capacity: expected what memory can hold, but got {} tokens of {} bytes",
                options.capacity, token);
  }
  return bytes;
}

Result<KvCache> KvCache::make(KvCacheOptions options) {
  ROPEWALK_CHECK_OK(memory(options));
  if (options.rotary) options.rotary->axis.clear();  // every axis turns by the same position here
  const auto size = static_cast<int64_t>(size_of(options.dtype));
  auto state = std::make_unique<State>();
  ROPEWALK_TRY(state->keys, AlignedBuffer<std::byte>::make(options.capacity * options.heads * options.dim * size));
  ROPEWALK_TRY(state->values, AlignedBuffer<std::byte>::make(options.capacity * options.heads * options.value_dim * size));
  ROPEWALK_TRY(state->positions, AlignedBuffer<int64_t>::make(options.capacity));
  state->options = std::move(options);
  return KvCache(std::move(state));
}

KvCache::KvCache(std::unique_ptr<State> state) : state_(std::move(state)) {}
KvCache::KvCache(KvCache&&) noexcept = default;
KvCache& KvCache::operator=(KvCache&&) noexcept = default;
KvCache::~KvCache() = default;

Result<void> KvCache::append(ConstHeadsView k, ConstHeadsView v, std::span<const int64_t> positions) {
  State& s = *state_;
  if (k.tokens < 0 || k.tokens != v.tokens || k.heads != s.options.heads || v.heads != s.options.heads ||
      k.dim != s.options.dim || v.dim != s.options.value_dim) {
    return fail(
        ErrorCode::kInvalidArgument,
        "[kv_cache] append: expected keys [n][{0}][{1}] and values [n][{0}][{2}], but got [{3}][{4}][{5}] and [{6}][{7}][{8}]",
        s.options.heads, s.options.dim, s.options.value_dim, k.tokens, k.heads, k.dim, v.tokens, v.heads, v.dim);
  }
  if (static_cast<int64_t>(positions.size()) != k.tokens) {
    return fail(ErrorCode::kInvalidArgument, "[kv_cache] append: expected {} positions, one a token, but got {}", k.tokens,
                positions.size());
  }
  if (k.tokens > s.options.capacity - s.length) {
    return fail(ErrorCode::kTooLarge, "[kv_cache] append: expected at most {} more tokens of {}, but got {}",
                s.options.capacity - s.length, s.options.capacity, k.tokens);
  }
  const RotarySchedule* schedule = s.options.rotary && !s.options.rotary->inv_freq.empty() ? &*s.options.rotary : nullptr;
  for (int64_t begin = 0; begin < k.tokens; begin += kPiece) {
    const int64_t count = std::min(kPiece, k.tokens - begin);
    const auto at = positions.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
    ROPEWALK_CHECK_OK(s.store(k, begin, count, schedule, at, s.keys));
    ROPEWALK_CHECK_OK(s.store(v, begin, count, nullptr, at, s.values));
  }
  std::copy(positions.begin(), positions.end(), s.positions.data() + s.length);
  s.length += k.tokens;  // only now: an error above leaves the cache as it was
  return {};
}

Result<void> KvCache::truncate(int64_t length) {
  if (length < 0 || length > state_->length) {
    return fail(ErrorCode::kInvalidArgument, "[kv_cache] truncate: expected a length of 0 to {}, but got {}", state_->length,
                length);
  }
  state_->length = length;
  return {};
}

void KvCache::reset() noexcept { state_->length = 0; }
int64_t KvCache::length() const noexcept { return state_->length; }
int64_t KvCache::capacity() const noexcept { return state_->options.capacity; }
bool KvCache::keys_rotated() const noexcept { return state_->options.rotary.has_value(); }
ConstHeadsView KvCache::keys() const noexcept { return state_->view(state_->keys, state_->options.dim); }
ConstHeadsView KvCache::values() const noexcept { return state_->view(state_->values, state_->options.value_dim); }
std::span<const int64_t> KvCache::positions() const noexcept {
  return state_->positions.span().first(static_cast<size_t>(state_->length));
}

AttentionInputs KvCache::inputs(int64_t queries) const {
  AttentionInputs in;
  in.k = keys();
  in.v = values();
  in.k_pos = positions();
  in.q_index = length() - queries;
  in.q_pos = in.k_pos.subspan(static_cast<size_t>(in.q_index));
  if (keys_rotated()) {
    in.rotary = &*state_->options.rotary;
    in.k_rotated = true;
  }
  return in;
}

}  // namespace ropewalk
