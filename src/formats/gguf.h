// GGUF, versions 2 and 3, little endian: metadata and tensors by mmap, split files included. Every count and offset is checked
// before it is used. Source: the GGUF specification in ggml's docs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/tensor.h"
#include "ropewalk/error.h"

namespace ropewalk {

// A metadata value. Integers of every width widen to int64 or uint64, floats to double; the file's own type is kept beside it.
struct GgufValue {
  using Array = std::variant<std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>, std::vector<bool>,
                             std::vector<std::string_view>>;  // nested arrays are refused, naming the key
  std::string key;
  uint32_t type = 0;          // GGUF type id 0..12
  uint32_t element_type = 0;  // of an array (type 9): type id of its elements
  uint64_t offset = 0;        // byte of the value in the file, for messages
  std::variant<uint64_t, int64_t, double, bool, std::string_view, Array> value;
};

// Type and value for a message: `f32 -10000`, `string "1e6"`, `array of 3 string`.
std::string describe(const GgufValue& value);
// As an integer or a number, where the value is one (an integer is a number too).
std::optional<int64_t> as_integer(const GgufValue& value);
std::optional<double> as_number(const GgufValue& value);

class GgufFile : public TensorSource {
 public:
  // Opens the file, and its siblings when it is the first of a split set ("-00001-of-0000N.gguf"). Errors: kNotFound, kIo,
  // kCorrupt (with byte offset, and key or tensor name), kUnsupported (version, byte order, tensor type: named), kTooLarge.
  // Cost: linear in the metadata; tensor data is mapped and not touched.
  static Result<std::unique_ptr<GgufFile>> open(const std::string& path);
  // The same over bytes that the caller keeps alive (tests, fuzzing). `name` stands for the path in messages. A file of a split
  // set is refused: its siblings cannot be found.
  static Result<std::unique_ptr<GgufFile>> parse(std::span<const std::byte> bytes, const std::string& name);

  virtual uint32_t version() const = 0;
  virtual uint64_t data_start() const = 0;                            // byte offset of the tensor data (first file)
  virtual const std::vector<GgufValue>& metadata() const = 0;         // of the first file, in its order
  virtual const GgufValue* find_key(std::string_view key) const = 0;  // null when absent

  // Typed reads. Absent: kNotFound naming file and key. Wrong type: kCorrupt naming file, byte, key, expected and found.
  // Integers are accepted for floats; range is checked.
  Result<std::string> text(std::string_view key) const;
  Result<int64_t> integer(std::string_view key, int64_t low, int64_t high) const;
  Result<double> number(std::string_view key) const;
  bool has(std::string_view key) const { return find_key(key) != nullptr; }
};

// Checks the keys of the declared architecture that position arithmetic rests on (bases, scaling, head counts and sizes, rotary
// width, lengths), where present: kCorrupt naming file, byte, key, expected and found. open() and parse() call it.
Result<void> validate_position_keys(const GgufFile& file);

}  // namespace ropewalk
