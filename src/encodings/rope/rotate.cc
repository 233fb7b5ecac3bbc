// rotate() of ropewalk/rotary.h: checks once, then hands ranges of tokens to the kernel.
#include <algorithm>

#include "base/fail.h"
#include "base/parallel.h"
#include "ropewalk/rotary.h"
#include "simd/rotate.h"

namespace ropewalk {
namespace {

Result<void> check(const RotarySchedule& schedule, const RotaryTable& table, const ConstHeadsView& x, const HeadsView& out) {
  if (x.tokens < 0 || x.heads < 0 || x.dim < 0 || x.tokens != out.tokens || x.heads != out.heads || x.dim != out.dim) {
    return fail(ErrorCode::kInvalidArgument,
                "[rotate] expected input and output of one shape, but got [{}][{}][{}] and [{}][{}][{}]", x.tokens, x.heads,
                x.dim, out.tokens, out.heads, out.dim);
  }
  if (x.dtype != out.dtype) {
    return fail(ErrorCode::kInvalidArgument, "[rotate] expected input and output of one type, but got {} and {}",
                to_string(x.dtype), to_string(out.dtype));
  }
  const Slice slice = schedule.rotated;
  if (slice.begin < 0 || slice.count < 0 || slice.count > x.dim || slice.begin > x.dim - slice.count ||
      static_cast<size_t>(slice.count) != 2 * schedule.inv_freq.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "[rotate] expected the slice of {} planes to lie in a head of {}, but got dims [{}, {} + {})",
                schedule.inv_freq.size(), x.dim, slice.begin, slice.begin, slice.count);
  }
  const auto entries =
      static_cast<size_t>(std::max<int64_t>(table.positions, 0)) * static_cast<size_t>(std::max(table.planes, 0));
  if (table.positions != x.tokens || table.planes != slice.count / 2 || table.cos.size() < entries ||
      table.sin.size() < entries) {
    return fail(ErrorCode::kInvalidArgument,
                "[rotate] expected a table of {} rows and {} planes, but got {} and {} ({} and {} numbers)", x.tokens,
                slice.count / 2, table.positions, table.planes, table.cos.size(), table.sin.size());
  }
  const bool empty = x.tokens == 0 || x.heads == 0 || x.dim == 0;
  if (!empty && (x.data == nullptr || out.data == nullptr)) {
    return fail(ErrorCode::kInvalidArgument, "[rotate] expected data for {} tokens, but got a null pointer", x.tokens);
  }
  if (!empty && x.data == out.data && (x.token_stride != out.token_stride || x.head_stride != out.head_stride)) {
    return fail(ErrorCode::kInvalidArgument, "[rotate] in place, expected equal strides, but got {}, {} and {}, {}",
                x.token_stride, x.head_stride, out.token_stride, out.head_stride);
  }
  return {};
}

}  // namespace

Result<void> rotate(const RotarySchedule& schedule, const RotaryTable& table, ConstHeadsView x, HeadsView out, int threads) {
  ROPEWALK_CHECK_OK(check(schedule, table, x, out));
  if (x.tokens == 0 || x.heads == 0 || x.dim == 0) return {};
  simd::RotateArgs args;
  args.x = x.data;
  args.out = out.data;
  args.dtype = x.dtype;
  args.x_token_stride = x.token_stride;
  args.x_head_stride = x.head_stride;
  args.out_token_stride = out.token_stride;
  args.out_head_stride = out.head_stride;
  args.heads = x.heads;
  args.dim = x.dim;
  args.begin = schedule.rotated.begin;
  args.planes = table.planes;
  args.interleaved = schedule.pairing == Pairing::kInterleaved;
  args.cos = table.cos.data();
  args.sin = table.sin.data();
  // A thread is worth waking for about 64 KiB.
  const int64_t token_bytes = int64_t{x.heads} * x.dim * static_cast<int64_t>(size_of(x.dtype));
  const int64_t grain = std::max<int64_t>(1, 65536 / token_bytes);
  parallel_ranges({threads}, x.tokens, grain, [&](int64_t begin, int64_t end, int) { simd::rotate_tokens(args, begin, end); });
  return {};
}

}  // namespace ropewalk
