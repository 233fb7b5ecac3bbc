#include "formats/json.h"

#include <new>
#include <optional>
#include <vector>

#include "base/fail.h"
#include "formats/printable.h"

namespace ropewalk {
namespace {

using nlohmann::json;

// Builds the value from the parser's events. nlohmann's own builder keeps the last of two equal keys and knows no depth limit.
class Builder final : public nlohmann::json_sax<json> {
 public:
  explicit Builder(const JsonSource& source) : source_(source) {}

  json take() { return std::move(root_); }
  Error error() const { return *error_; }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    json& object = *open_.back();
    keys_.back() = name;
    if (object.contains(name)) {
      error_ = fail(ErrorCode::kCorrupt, "[{}] {}: {}: expected each key once, but got it a second time", source_.who,
                    source_.name, path());
      return false;
    }
    slot_ = &object[name];
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error ...": what follows the place is ours to
    // print.
    std::string_view detail = e.what();
    if (const size_t at = detail.find("column "); at != std::string_view::npos) {
      if (const size_t colon = detail.find(": ", at); colon != std::string_view::npos) detail = detail.substr(colon + 2);
    } else if (const size_t bracket = detail.find("] "); bracket != std::string_view::npos) {
      detail = detail.substr(bracket + 2);
    }
    const std::string where = keys_.empty() ? "" : path() + ": ";
    error_ = fail(ErrorCode::kCorrupt, "[{}] {}: byte {}: {}expected valid JSON, but got: {}", source_.who, source_.name,
                  source_.offset + (position > 0 ? position - 1 : 0), where, printable(detail, 200));
    return false;
  }

 private:
  template <class T>
  json* place(T&& value) {
    if (open_.empty()) {
      root_ = std::forward<T>(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::forward<T>(value));
      return &open_.back()->back();
    }
    *slot_ = std::forward<T>(value);
    return slot_;
  }
  template <class T>
  bool put(T&& value) {
    place(json(std::forward<T>(value)));
    return true;
  }
  bool open(json container) {
    if (static_cast<int>(open_.size()) >= source_.max_depth) {
      error_ = fail(ErrorCode::kTooLarge, "[{}] {}: {}: expected JSON at most {} levels deep, but got more", source_.who,
                    source_.name, path(), source_.max_depth);
      return false;
    }
    // A parent grows only after this child is closed, so the pointer stays good for as long as it is on the stack.
    open_.push_back(place(std::move(container)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }
  std::string path() const {
    std::string out;
    for (const std::string& key : keys_) {
      if (!out.empty() && !key.empty()) out += '.';
      out += printable(key);
    }
    return out;
  }

  const JsonSource& source_;
  json root_;
  json* slot_ = nullptr;           // value of the key that was read last
  std::vector<json*> open_;        // containers around the read position
  std::vector<std::string> keys_;  // and the key read last in each
  std::optional<Error> error_;
};

}  // namespace

Result<json> parse_json(std::string_view text, const JsonSource& source) {
  if (text.size() > source.max_bytes) {
    return fail(ErrorCode::kTooLarge, "[{}] {}: expected at most {} bytes of JSON, but got {}", source.who, source.name,
                source.max_bytes, text.size());
  }
  if (text.starts_with("\xef\xbb\xbf")) {  // the parser would skip it without a word
    return fail(ErrorCode::kCorrupt, "[{}] {}: byte {}: expected JSON, but got a byte order mark before it", source.who,
                source.name, source.offset);
  }
  try {
    Builder builder(source);
    if (!json::sax_parse(text.begin(), text.end(), &builder)) return builder.error();
    return builder.take();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLarge, "[{}] {}: expected JSON that fits the memory, but an allocation failed", source.who,
                source.name);
  }
}

std::string describe(const json& value) {
  // Containers may be huge: only their kind and size are said, unless they are short lists of numbers such as a shape.
  if (value.is_object()) return fmt::format("an object of {} keys", value.size());
  if (value.is_array() && value.size() > 8) return fmt::format("an array of {} elements", value.size());
  if (value.is_array()) {
    std::string out = "[";
    for (const json& element : value) {
      if (out.size() > 1) out += ", ";
      out += element.is_array() ? "[...]" : describe(element);
    }
    return out + "]";
  }
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

}  // namespace ropewalk
