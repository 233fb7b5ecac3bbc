// Errors as values. Every fallible public function returns Result<T>; the library never aborts, exits or prints.
//
// A caller who prefers exceptions writes `.value()`, which throws the same Error.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "ropewalk/api.h"

namespace ropewalk {

enum class ErrorCode {
  kInvalidArgument,  // a parameter is outside its documented range
  kNotFound,         // a file, tensor, key or name that was asked for is not there
  kIo,               // the operating system refused: unreadable, unwritable, disk full
  kCorrupt,          // a file contradicts itself or its format
  kUnsupported,      // a well-formed input that this version cannot use
  kTooLarge,         // more memory, positions or bytes than are there
  kInterrupted,      // the caller asked to stop; finished results are kept
};

ROPEWALK_API const char* to_string(ErrorCode code) noexcept;

// Message form: "[who] what was wrong, but got this", with file and byte offset or key path when parsing.
class ROPEWALK_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }
  std::string message() const { return what(); }

 private:
  ErrorCode code_;
};

// Shaped like std::expected<T, Error> (C++23).
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  // Precondition of *, -> : has_value(). Precondition of error(): !has_value().
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  const Error& error() const { return *std::get_if<1>(&state_); }

  // The value, or throws the Error.
  T& value() & {
    if (!has_value()) throw error();
    return **this;
  }
  const T& value() const& {
    if (!has_value()) throw error();
    return **this;
  }
  T&& value() && {
    if (!has_value()) throw error();
    return std::move(**this);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  const Error& error() const { return *std::get_if<1>(&state_); }
  void value() const {
    if (!has_value()) throw error();
  }

 private:
  std::variant<std::monostate, Error> state_;
};

}  // namespace ropewalk
