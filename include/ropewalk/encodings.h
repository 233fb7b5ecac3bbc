// The registry of position encodings: every one by name, with its parameters, weights and the points at which it acts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ropewalk/encoding.h"
#include "ropewalk/error.h"

namespace ropewalk {

// What a parameter of an encoding is. A whole one takes integers only.
struct EncodingParameter {
  std::string name;
  std::string meaning;
  double value = 0;  // when not given
  double low = 0;    // closed range
  double high = 0;
  bool whole = false;
};

// A learned table: row-major values. Given to make_encoding by name, or drawn by it.
struct EncodingWeight {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// The points of ropewalk/encoding.h at which an encoding acts.
struct EncodingPoints {
  bool input = false, rotation = false, score = false, value = false, pairs = false;
};

struct EncodingInfo {
  std::string name{};     // "alibi"
  std::string title{};    // "Attention with linear biases"
  std::string family{};   // "absolute", "relative", "content", "rotary", "pairs"
  std::string formula{};  // in plain text: m, n positions, d = m - n, h head, H heads, D head size, C width
  std::string summary{};  // what it is and when to use it
  std::string used_by{};  // models
  std::string source{};   // paper
  std::string cost{};     // what it adds to attention
  std::vector<EncodingParameter> parameters{};
  std::string text{};        // what the text after "name:" means, for an encoding that takes one instead of parameters
  std::string text_value{};  // ... when not given
  EncodingPoints points{};
  bool shift_invariant = false;  // scores depend on m and n through m - n alone
};

// The layer that an encoding is made for.
struct EncodingContext {
  int heads = 8;
  int head_dim = 64;
  int64_t width = 512;     // C
  int64_t trained = 2048;  // L0
  uint64_t seed = 0;       // of weights that are not given
};

// All registered encodings, in the order of registry.inc.
ROPEWALK_API std::span<const EncodingInfo> encodings();
// Null when there is none of that name.
ROPEWALK_API const EncodingInfo* find_encoding(std::string_view name);

// "alibi", "t5:buckets=32:max=128", "expr:-0.5*log(1+d)". Weights by name; those that are absent are drawn from the seed.
// Errors: kNotFound (no such encoding), kInvalidArgument (a parameter that does not exist or is out of its range, a weight of
// another shape or name), naming encoding, parameter, range and value; kTooLarge (a table to draw of more than 2^28 elements).
ROPEWALK_API Result<PositionEncoding> make_encoding(std::string_view text, const EncodingContext& context,
                                                    std::span<const EncodingWeight> weights = {});

// The learned tables of an encoding, drawn from the seed: their names and shapes are what make_encoding takes.
ROPEWALK_API Result<std::vector<EncodingWeight>> encoding_weights(std::string_view text, const EncodingContext& context);

}  // namespace ropewalk
