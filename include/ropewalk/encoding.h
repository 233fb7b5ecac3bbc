// What a position encoding does, at its five points. Attention knows this file and no concrete encoding.
//
//   1 input     on the token embedding              InputTerm
//   2 rotation  on q and k                          RotarySchedule (ropewalk/rotary.h)
//   3 score     a term added to a tile of scores    ScoreTerm
//   4 value     a term added to v inside the sum    ValueTerm
//   5 pairs     which positions and which schedule the rotation uses for a range of queries and keys    PairMap
//               which keys a query sees by their positions                                              Reach
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ropewalk/rotary.h"

namespace ropewalk {

// Gradients by the weights of an encoding, by the names and in the sizes of encoding_weights().
class ROPEWALK_API EncodingGradients {
 public:
  // The gradient by a table, zeros where nothing was added yet.
  std::vector<double>& of(const std::string& name, size_t size);
  // Null where nothing was added.
  const std::vector<double>* find(const std::string& name) const;
  void add(const EncodingGradients& other);
  void drop(const std::string& name) { tables_.erase(name); }

 private:
  std::map<std::string, std::vector<double>> tables_;
};

// Where the gradients by the content of one query's row go: added.
struct ContentGradient {
  float* q = nullptr;  // [D]
  float* k = nullptr;  // [cols][D], row stride k_stride
  int64_t k_stride = 0;
};

// Point 1. x [T][C], in place; C is the width that the term was made for. Errors: kInvalidArgument, a position that has no
// encoding. Thread-safe.
class ROPEWALK_API InputTerm {
 public:
  virtual ~InputTerm() = default;
  virtual Result<void> apply(std::span<const int64_t> positions, float* x, int64_t width) const = 0;
  // gradient [T][C], in place: by the result to by x. `x` is what apply was given. The default: the term was added.
  virtual void backward(std::span<const int64_t> positions, const float* x, float* gradient, int64_t width,
                        EncodingGradients& weights) const;
};

// A rectangle of the score matrix of one query head: queries are rows, keys are columns.
struct ScoreTile {
  int head = 0;                    // global index of the query head
  int heads = 1;                   // H
  std::span<const int64_t> q_pos;  // [rows] m
  std::span<const int64_t> k_pos;  // [cols] n
  const float* q = nullptr;        // [rows][D] queries before rotation, row stride q_stride
  int64_t q_stride = 0;
  const float* k = nullptr;  // [cols][D] keys before rotation, row stride k_stride; null unless needs_content()
  int64_t k_stride = 0;
  double scale = 1;                 // the softmax scale, which content-bearing terms share
  std::span<const int32_t> q_type;  // [rows], [cols] or both empty: the kind of a token (XLNet's segments)
  std::span<const int32_t> k_type;
  double* state = nullptr;  // [rows][row_state()] of the term, stride state_stride; 0 before a row's first tile
  int64_t state_stride = 0;
};

// What a term was made for; 0 = any.
struct TermShape {
  int heads = 0;
  int dim = 0;  // of a query and key, or of a value
};

class DistanceTerm;
class PairTerm;
class VectorTerm;

// Point 3. One virtual call a tile, so attention keeps O(T) memory with every encoding. Thread-safe.
class ROPEWALK_API ScoreTerm {
 public:
  virtual ~ScoreTerm() = default;
  virtual TermShape shape() const { return {}; }
  // Called before the tiles of a call, with the least and the largest d = m - n among its visible pairs: tables by distance are
  // made here, and the term of a pair outside of every range prepared must not be asked for (a hidden one is left alone). Calls
  // may run side by side. Errors: kTooLarge.
  virtual Result<void> prepare(int64_t least, int64_t largest) const;
  // The term itself where it depends on the head and on d = m - n alone; else null.
  virtual const DistanceTerm* by_distance() const { return nullptr; }
  // ... where it depends on the head and both positions alone; else null.
  virtual const PairTerm* by_pairs() const { return nullptr; }
  // ... where it is products with vectors of the distance; else null.
  virtual const VectorTerm* by_vectors() const { return nullptr; }
  // scores[r * stride + c] += term, in the units of scaled scores (after scale and soft cap, before the softmax). What stands
  // there is the score so far, -infinity where the pair is hidden: a term may read it.
  virtual void add(const ScoreTile& tile, float* scores, int64_t stride) const = 0;
  // The same in double, for the reference; the default calls the float form.
  virtual void add(const ScoreTile& tile, double* scores, int64_t stride) const;
  virtual bool needs_content() const { return false; }  // reads tile.q and tile.k
  // Numbers that the term keeps for a row while its tiles pass, each once, from the last keys to the first.
  virtual int64_t row_state() const { return 0; }
  // One query's row: `scores` is what add found, `gradient` the loss's by what it left (0 where hidden). Adds the term's parts
  // of the gradients by content and weights; where the term reads the scores, `gradient` becomes that by `scores`. The default:
  // there are no weights, and nothing is read.
  virtual void backward(const ScoreTile& row, std::span<const double> scores, std::span<double> gradient,
                        const ContentGradient& content, EncodingGradients& weights) const;
  // After all rows: what was gathered on the way becomes gradients by weights.
  virtual void finish_gradients(EncodingGradients& /*weights*/) const {}
};

// A score term of the head and the distance d = m - n alone: b_h(d). Attention tabulates it once a call (H rows of as many
// distances as occur) and adds it where scores are formed, at next to no cost.
class ROPEWALK_API DistanceTerm : public ScoreTerm {
 public:
  // out[i] = b_head(first + i). -infinity hides a pair; NaN makes the row of a query that sees it NaN.
  virtual void fill(int head, int heads, int64_t first, std::span<double> out) const = 0;
  const DistanceTerm* by_distance() const final { return this; }
  void add(const ScoreTile& tile, float* scores, int64_t stride) const final;
  void add(const ScoreTile& tile, double* scores, int64_t stride) const final;
};

// A score term of the head and both positions: b_h(m, n). Attention asks for a row of consecutive keys at a time.
class ROPEWALK_API PairTerm : public ScoreTerm {
 public:
  // out[i] = b_head(m, n + i); what -infinity and NaN do: as above.
  virtual void fill(int head, int heads, int64_t m, int64_t n, std::span<double> out) const = 0;
  virtual void fill(int head, int heads, int64_t m, int64_t n, std::span<float> out) const;
  const PairTerm* by_pairs() const final { return this; }
  void add(const ScoreTile& tile, float* scores, int64_t stride) const final;
  void add(const ScoreTile& tile, double* scores, int64_t stride) const final;
};

// A score term of products with vectors of the distance:
//   scale * ((q_m + v_h) . a_h[i(d)] + k_n . (b_h[j(d)] + u_h)) + a rest
// Attention forms the products for a range of distances at once, as a matrix product, and adds them by address: O(T) memory.
class ROPEWALK_API VectorTerm : public ScoreTerm {
 public:
  enum class Side : uint8_t {
    kQuery,  // a
    kKey,    // b
  };
  virtual bool has(Side side) const = 0;
  // The row of a distance, i(d) or j(d): it never falls as d grows, or never rises.
  virtual int64_t row(Side side, int64_t d) const = 0;
  virtual const float* vector(Side side, int head, int64_t row) const = 0;  // [D]
  virtual bool shared(Side) const { return false; }                         // all heads have one table
  virtual const float* query_bias(int /*head*/) const { return nullptr; }   // v_h [D], or null: 0
  virtual const float* key_vector(int /*head*/) const { return nullptr; }   // u_h [D], or null: 0
  // Where the gradients by them go, [D]; null: there are no weights behind them.
  virtual double* vector_gradient(EncodingGradients&, Side, int /*head*/, int64_t /*row*/) const { return nullptr; }
  virtual double* query_bias_gradient(EncodingGradients&, int /*head*/) const { return nullptr; }
  virtual double* key_vector_gradient(EncodingGradients&, int /*head*/) const { return nullptr; }
  virtual bool has_rest() const { return false; }  // add_rest adds something
  virtual void add_rest(const ScoreTile& /*tile*/, float* /*scores*/, int64_t /*stride*/) const {}
  virtual void add_rest(const ScoreTile& /*tile*/, double* /*scores*/, int64_t /*stride*/) const {}
  virtual void backward_rest(const ScoreTile& /*row*/, std::span<const double> /*gradient*/, const ContentGradient&,
                             EncodingGradients&) const {}

  const VectorTerm* by_vectors() const final { return this; }
  bool needs_content() const final { return true; }
  void add(const ScoreTile& tile, float* scores, int64_t stride) const final;
  void add(const ScoreTile& tile, double* scores, int64_t stride) const final;
  void backward(const ScoreTile& row, std::span<const double> scores, std::span<double> gradient,
                const ContentGradient& content, EncodingGradients& weights) const final;
};

// Point 4. Thread-safe.
class ROPEWALK_API ValueTerm {
 public:
  virtual ~ValueTerm() = default;
  virtual TermShape shape() const { return {}; }
  // out[r * out_stride + j] += sum over the tile's columns c of weights[r * stride + c] * term(q_pos[r], k_pos[c])[j].
  // Weights are not normalised yet: attention divides the sum at the end.
  virtual void add(const ScoreTile& tile, const float* weights, int64_t stride, float* out, int64_t out_stride) const = 0;
  // One query's row: adds to `gradient` that by the (normalised) weights, out_gradient [Dv] . term, and to `tables` that by the
  // term's own weights.
  virtual void backward(const ScoreTile& row, std::span<const double> weights, const float* out_gradient,
                        std::span<double> gradient, EncodingGradients& tables) const = 0;
};

// Closed range of positions.
struct PosRange {
  int64_t first = 0;
  int64_t last = 0;
};

// Point 5. Attention hands in q and k un-rotated and asks, tile by tile, how to rotate them. Thread-safe.
class ROPEWALK_API PairMap {
 public:
  virtual ~PairMap() = default;

  // How one tile is rotated: one way, or up to three where it straddles borders.
  struct Choice {
    static constexpr int kMost = 3;
    enum class Border : uint8_t {
      kDistance,  // side k > 0 begins at d = m - n >= split[k - 1], which rise
      kKey,       // side k > 0 begins at n < split[k - 1], which fall
    };
    int sides = 1;              // 1 to kMost
    uint64_t side[kMost] = {};  // keys for schedule() and the positions; equal keys mean equal rotations, so rotated tiles may
                                // be reused
    Border border = Border::kDistance;
    int64_t split[kMost - 1] = {};

    uint64_t at(int64_t m, int64_t n) const {
      int k = sides - 1;
      while (k > 0 && !(border == Border::kDistance ? m - n >= split[k - 1] : n < split[k - 1])) --k;
      return side[k];
    }
  };
  virtual Choice choose(PosRange queries, PosRange keys) const = 0;

  // The schedule of a side. The reference stays valid as long as the map.
  virtual const RotarySchedule& schedule(uint64_t side) const = 0;
  // The positions that a side gives to queries and keys; the default is the identity. Real-valued (leaky ReRoPE).
  virtual void query_positions(uint64_t side, std::span<const int64_t> m, std::span<double> out) const;
  virtual void key_positions(uint64_t side, std::span<const int64_t> n, std::span<double> out) const;

  // The first position after m at which queries may be treated differently (a block of queries never crosses it).
  virtual int64_t next_edge(int64_t m) const = 0;
  // Names the map of positions and the borders: maps of one name that use the same schedules act alike. Empty for the identity.
  virtual std::string name() const { return {}; }
};

// Which keys a query sees by their positions, beside causal order: all, or fewer.
struct Reach {
  int64_t window = 0;  // 0 = none; else keys with d = m - n < window (and, when not causal, d > -window)
  int64_t sinks = 0;   // keys at positions 0 to sinks - 1, which are seen whatever the window says
  int64_t chunk = 0;   // 0 = none; else keys with floor(n / chunk) = floor(m / chunk)
  bool operator==(const Reach&) const = default;
};

// What acts in one attention layer. Any part may be absent.
struct PositionEncoding {
  std::shared_ptr<const InputTerm> input;
  std::optional<RotarySchedule> rotary;
  std::shared_ptr<const ScoreTerm> score;
  std::shared_ptr<const ValueTerm> value;
  std::shared_ptr<const PairMap> pairs;  // replaces `rotary` where present
  Reach reach;
};

}  // namespace ropewalk
