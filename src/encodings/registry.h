// What the folder of an encoding gives to the registry. A new encoding is one folder with `encoding_NAME()` and one line in
// registry.inc.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ropewalk/encodings.h"

namespace ropewalk {

// Checked arguments of one use of an encoding.
class EncodingArguments {
 public:
  double operator[](std::string_view name) const { return numbers_.find(name)->second; }
  const std::string& text() const { return text_; }  // of an encoding that takes one
  void set_text(std::string_view text) { text_ = text; }
  int64_t whole(std::string_view name) const { return static_cast<int64_t>((*this)[name]); }
  void set(const std::string& name, double value) { numbers_[name] = value; }

 private:
  std::map<std::string, double, std::less<>> numbers_;
  std::string text_;
};

// Learned tables by name, all there and of the right shape.
class EncodingTables {
 public:
  explicit EncodingTables(std::vector<EncodingWeight> weights) : weights_(std::move(weights)) {}
  const std::vector<float>& operator[](std::string_view name) const;

 private:
  std::vector<EncodingWeight> weights_;
};

struct EncodingEntry {
  EncodingInfo info{};
  // Shapes of the learned tables, values empty; null when there are none.
  std::vector<EncodingWeight> (*shapes)(const EncodingArguments&, const EncodingContext&) = nullptr;
  // What an element of a table that is not given becomes, from a normal draw; null: the draw itself.
  double (*initial)(const std::string& table, double normal) = nullptr;
  Result<PositionEncoding> (*make)(const EncodingArguments&, const EncodingContext&, const EncodingTables&) = nullptr;
};

#define ROPEWALK_ENCODING(name) const EncodingEntry& encoding_##name();
#include "encodings/registry.inc"
#undef ROPEWALK_ENCODING

}  // namespace ropewalk
