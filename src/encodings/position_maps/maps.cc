#include "encodings/position_maps/maps.h"

#include <limits>

#include "base/fail.h"
#include "encodings/registry.h"

namespace ropewalk {
namespace {

constexpr uint64_t kNear = 0;
constexpr uint64_t kFar = 1;

int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }  // b > 0

// One schedule, two maps of positions, a border at d = window.
class NearAndFar : public PairMap {
 public:
  NearAndFar(const RotarySchedule& schedule, int64_t window) : schedule_(schedule), window_(window) {}
  Choice choose(PosRange queries, PosRange keys) const final {
    if (queries.last - keys.first < window_) return {1, {kNear, 0}, 0};
    if (queries.first - keys.last >= window_) return {1, {kFar, 0}, 0};
    return {2, {kNear, kFar}, window_};
  }
  const RotarySchedule& schedule(uint64_t) const final { return schedule_; }
  void query_positions(uint64_t side, std::span<const int64_t> m, std::span<double> out) const final {
    for (size_t i = 0; i < m.size(); ++i) out[i] = side == kNear ? static_cast<double>(m[i]) : far_query(m[i]);
  }
  void key_positions(uint64_t side, std::span<const int64_t> n, std::span<double> out) const final {
    for (size_t i = 0; i < n.size(); ++i) out[i] = side == kNear ? static_cast<double>(n[i]) : far_key(n[i]);
  }
  int64_t next_edge(int64_t) const final { return std::numeric_limits<int64_t>::max(); }

 protected:
  virtual double far_query(int64_t m) const = 0;
  virtual double far_key(int64_t n) const = 0;

 private:
  RotarySchedule schedule_;
  int64_t window_;
};

class SelfExtend : public NearAndFar {
 public:
  std::string name() const override { return fmt::format("self_extend {} {}", group_, window_); }
  SelfExtend(const RotarySchedule& schedule, int64_t group, int64_t window)
      : NearAndFar(schedule, window), group_(group), window_(window), shift_(window - window / group) {}

 private:
  double far_query(int64_t m) const override { return static_cast<double>(floor_divide(m, group_) + shift_); }
  double far_key(int64_t n) const override { return static_cast<double>(floor_divide(n, group_)); }
  int64_t group_, window_, shift_;
};

class ReRope : public NearAndFar {
 public:
  std::string name() const override { return fmt::format("rerope {} {}", window_, leak_); }
  ReRope(const RotarySchedule& schedule, int64_t window, double leak)
      : NearAndFar(schedule, window), window_(static_cast<double>(window)), leak_(leak) {}

 private:
  double far_query(int64_t m) const override {
    return leak_ == 0 ? window_ : static_cast<double>(m) / leak_ + (window_ - window_ / leak_);
  }
  double far_key(int64_t n) const override { return leak_ == 0 ? 0 : static_cast<double>(n) / leak_; }
  double window_, leak_;
};

const EncodingParameter kWindow = {"window", "pairs nearer than this keep their distance (W)", 64, 1, 2147483647, true};
const EncodingParameter kTheta = {"theta", "base of the rotation", 10000, 1, 1e12, false};

Result<RotarySchedule> plain(const EncodingArguments& arguments, const EncodingContext& context) {
  return make_rotary_schedule(arguments["theta"], context.head_dim, context.head_dim, Pairing::kHalves);
}

PositionEncoding with(std::shared_ptr<const PairMap> map) {
  PositionEncoding encoding;
  encoding.pairs = std::move(map);
  return encoding;
}

}  // namespace

std::shared_ptr<const PairMap> make_self_extend(const RotarySchedule& schedule, int64_t group, int64_t window) {
  return std::make_shared<SelfExtend>(schedule, group, window);
}

std::shared_ptr<const PairMap> make_rerope(const RotarySchedule& schedule, int64_t window, double leak) {
  return std::make_shared<ReRope>(schedule, window, leak);
}

const EncodingEntry& encoding_self_extend() {
  static const EncodingEntry entry = {
      .info = {.name = "self_extend",
               .title = "RoPE with grouped far positions (Self-Extend)",
               .family = "pairs",
               .formula = "d < W: (m, n); else (floor(m/G) + W - floor(W/G), floor(n/G))",
               .summary =
                   "Near pairs keep their distance; far ones share positions in groups of G, so that no distance goes beyond "
                   "what was trained. No training.",
               .source = "Jin et al. 2024, arXiv:2401.01325",
               .cost = "two rotations of q and k; both scores where a tile straddles W",
               .parameters = {{"group", "positions that far tokens share (G)", 8, 1, 1048576, true}, kWindow, kTheta},
               .points = {.pairs = true}},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        ROPEWALK_TRY(const RotarySchedule schedule, plain(arguments, context));
        return with(make_self_extend(schedule, arguments.whole("group"), arguments.whole("window")));
      }};
  return entry;
}

const EncodingEntry& encoding_rerope() {
  static const EncodingEntry entry = {
      .info = {.name = "rerope",
               .title = "RoPE with a cut or slowed distance (ReRoPE, leaky ReRoPE)",
               .family = "pairs",
               .formula = "distance d for d < W; else W, or W + (d - W)/leak",
               .summary = "Beyond W every key looks W away (leak = 0), or moves away more slowly. leak = 1 is RoPE.",
               .source = "Su 2023, kexue.fm/archives/9708",
               .cost = "two rotations of q and k; both scores where a tile straddles W",
               .parameters = {kWindow,
                              {"leak", "0: all W away; else how much slower far distances grow", 0, 0, 1e9, false},
                              kTheta},
               .points = {.pairs = true},
               .shift_invariant = true},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        const double leak = arguments["leak"];
        if (leak > 0 && leak < 1e-6)
          return fail(ErrorCode::kInvalidArgument, "[encoding] rerope: leak: expected 0, or from 1e-6 to 1e9, but got {}",
                      leak);
        ROPEWALK_TRY(const RotarySchedule schedule, plain(arguments, context));
        return with(make_rerope(schedule, arguments.whole("window"), leak));
      }};
  return entry;
}

}  // namespace ropewalk
