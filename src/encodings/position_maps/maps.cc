#include "encodings/position_maps/maps.h"

#include <algorithm>
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
    if (queries.last - keys.first < window_) return {.side = {kNear}};
    if (queries.first - keys.last >= window_) return {.side = {kFar}};
    return {.sides = 2, .side = {kNear, kFar}, .split = {window_}};
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

// Sinks lie behind the window, so that they are the far pairs.
class Sinks : public NearAndFar {
 public:
  std::string name() const override { return fmt::format("sinks {} {}", sinks_, window_); }
  Sinks(const RotarySchedule& schedule, int64_t sinks, int64_t window)
      : NearAndFar(schedule, window), sinks_(sinks), window_(window) {}

 private:
  double far_query(int64_t m) const override { return static_cast<double>(std::min(m, sinks_ + window_ - 1)); }
  double far_key(int64_t n) const override { return static_cast<double>(n); }
  int64_t sinks_, window_;
};

class DualChunk : public PairMap {
 public:
  DualChunk(RotarySchedule schedule, int64_t chunk, int64_t window, int64_t trained)
      : schedule_(std::move(schedule)), chunk_(chunk), window_(window), trained_(trained) {}
  Choice choose(PosRange queries, PosRange keys) const override {
    const int64_t start = floor_divide(queries.first, chunk_) * chunk_;                   // of the chunk that the queries share
    const int64_t from[] = {start, start - chunk_, std::numeric_limits<int64_t>::min()};  // first key of each side
    Choice choice;
    choice.border = Choice::Border::kKey;
    choice.sides = 0;
    for (uint64_t side = kSame; side <= kOlder; ++side) {
      const bool begins = side == kSame || keys.first < from[side - 1];
      if (!begins || (side != kOlder && keys.last < from[side])) continue;
      if (choice.sides > 0) choice.split[choice.sides - 1] = from[side - 1];
      choice.side[choice.sides++] = side;
    }
    return choice;
  }
  const RotarySchedule& schedule(uint64_t) const override { return schedule_; }
  void query_positions(uint64_t side, std::span<const int64_t> m, std::span<double> out) const override {
    for (size_t i = 0; i < m.size(); ++i) {
      const int64_t place = m[i] - floor_divide(m[i], chunk_) * chunk_;
      int64_t used = trained_ - 1;
      if (side == kSame) used = place;
      if (side == kBefore && place < window_) used = std::min(place + chunk_, trained_ - 1);
      out[i] = static_cast<double>(used);
    }
  }
  void key_positions(uint64_t, std::span<const int64_t> n, std::span<double> out) const override {
    for (size_t i = 0; i < n.size(); ++i) out[i] = static_cast<double>(n[i] - floor_divide(n[i], chunk_) * chunk_);
  }
  int64_t next_edge(int64_t m) const override { return (floor_divide(m, chunk_) + 1) * chunk_; }
  std::string name() const override { return fmt::format("dual_chunk {} {} {}", chunk_, window_, trained_); }

 private:
  static constexpr uint64_t kSame = 0, kBefore = 1, kOlder = 2;
  RotarySchedule schedule_;
  int64_t chunk_, window_, trained_;
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

std::shared_ptr<const PairMap> make_sinks(const RotarySchedule& schedule, int64_t sinks, int64_t window) {
  return std::make_shared<Sinks>(schedule, sinks, window);
}

std::shared_ptr<const PairMap> make_dual_chunk(const RotarySchedule& schedule, int64_t chunk, int64_t window, int64_t trained) {
  return std::make_shared<DualChunk>(schedule, chunk, window, trained);
}

const EncodingEntry& encoding_sinks() {
  static const EncodingEntry entry = {
      .info =
          {.name = "sinks",
           .title = "RoPE with attention sinks",
           .family = "pairs",
           .formula =
               "keys n < N and d < W are seen; positions are places among them: the sinks stand at n, m at most at N + W - 1",
           .summary = "The first N keys and the last W, numbered by their place in the cache that keeps just them: text of any "
                      "length with memory for N + W keys. What lies between is forgotten, so nothing far is found again.",
           .used_by = "StreamingLLM; servers that drop the middle of a cache",
           .source = "Xiao et al. 2023, arXiv:2309.17453",
           .cost = "less than plain attention: N + W keys a query",
           .parameters = {{"keep", "keys kept from the start (N)", 4, 1, 2147483647, true},
                          {"window", "the last keys kept (W)", 64, 1, 2147483647, true},
                          kTheta},
           .points = {.pairs = true}},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        ROPEWALK_TRY(const RotarySchedule schedule, plain(arguments, context));
        PositionEncoding encoding = with(make_sinks(schedule, arguments.whole("keep"), arguments.whole("window")));
        encoding.reach = {arguments.whole("window"), arguments.whole("keep"), 0};
        return encoding;
      }};
  return entry;
}

const EncodingEntry& encoding_window() {
  static const EncodingEntry entry = {
      .info = {.name = "window",
               .title = "RoPE with a sliding window",
               .family = "pairs",
               .formula = "keys with d < W are seen",
               .summary = "The last W keys, the token itself among them. Layers that see everything, or depth, carry what lies "
                          "further.",
               .used_by = "Mistral 7B v0.1; Gemma 2 and 3, GPT-OSS, Cohere (in turns with full layers)",
               .source = "Beltagy et al. 2020, arXiv:2004.05150; Jiang et al. 2023, arXiv:2310.06825",
               .cost = "less than plain attention: W keys a query",
               .parameters = {kWindow, kTheta},
               .points = {.rotation = true, .pairs = true},
               .shift_invariant = true},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        PositionEncoding encoding;
        ROPEWALK_TRY(encoding.rotary, plain(arguments, context));
        encoding.reach.window = arguments.whole("window");
        return encoding;
      }};
  return entry;
}

const EncodingEntry& encoding_chunked() {
  static const EncodingEntry entry = {
      .info =
          {.name = "chunked",
           .title = "RoPE with chunked attention",
           .family = "pairs",
           .formula = "keys with floor(n / chunk) = floor(m / chunk) are seen",
           .summary =
               "Tokens see their own chunk of positions alone, so these layers never meet a distance beyond it; other layers "
               "(in Llama 4 those without rotation) carry what lies further.",
           .used_by = "Llama 4",
           .source = "Meta 2025, Llama 4 (model card and transformers' llama4)",
           .cost = "less than plain attention: at most `chunk` keys a query",
           .parameters = {{"chunk", "positions of a chunk", 96, 1, 2147483647, true}, kTheta},
           .points = {.rotation = true, .pairs = true}},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        PositionEncoding encoding;
        ROPEWALK_TRY(encoding.rotary, plain(arguments, context));
        encoding.reach.chunk = arguments.whole("chunk");
        return encoding;
      }};
  return entry;
}

const EncodingEntry& encoding_dual_chunk() {
  static const EncodingEntry entry = {
      .info = {.name = "dual_chunk",
               .title = "RoPE in chunks (dual chunk attention)",
               .family = "pairs",
               .formula =
                   "keys at n mod s; queries at m mod s (same chunk), min(m mod s + s, c-1) within w or c-1 (chunk before), "
                   "c-1 (older)",
               .summary =
                   "Chunks shorter than the trained length c: positions start anew in each, and older chunks look as far away "
                   "as anything in training did. No training.",
               .used_by = "ChunkLlama; Qwen2.5-1M",
               .source = "An et al. 2024, arXiv:2402.17463",
               .cost = "up to three rotations of q, one of k; all scores where a tile straddles chunks",
               .parameters = {{"chunk", "positions of a chunk (s); 0 = three quarters of c", 0, 0, 1073741824, true},
                              {"window", "places of a chunk that keep their distance to the chunk before (w); 0 = c - s", 0, 0,
                               1073741824, true},
                              {"trained", "c; 0 = the trained length of the layer", 0, 0, 2147483647, true},
                              kTheta},
               .points = {.pairs = true}},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        const int64_t trained = arguments["trained"] == 0 ? context.trained : arguments.whole("trained");
        const int64_t chunk = arguments["chunk"] == 0 ? trained - trained / 4 : arguments.whole("chunk");
        if (trained <= chunk) {
          return fail(ErrorCode::kInvalidArgument,
                      "[encoding] dual_chunk: chunk: expected less than the trained length {}, "
                      "but got {}",
                      trained, chunk);
        }
        ROPEWALK_TRY(const RotarySchedule schedule, plain(arguments, context));
        const int64_t window = arguments["window"] == 0 ? trained - chunk : arguments.whole("window");
        return with(make_dual_chunk(schedule, chunk, window, trained));
      }};
  return entry;
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
