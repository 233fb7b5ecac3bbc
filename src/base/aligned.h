// A buffer of trivially copyable elements, aligned to 64 bytes and not initialised: activations and packed tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "base/fail.h"

namespace ropewalk {

template <class T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  // Errors: kTooLarge, with the size, when the memory is not to be had (a negative count is one that overflowed).
  static Result<AlignedBuffer> make(int64_t count) {
    AlignedBuffer buffer;
    if (count != 0) {
      if (static_cast<uint64_t>(count) > (uint64_t{1} << 48) / sizeof(T)) {
        return fail(ErrorCode::kTooLarge, "[memory] expected a size that can be allocated, but got {} elements", count);
      }
      void* data = ::operator new (static_cast<size_t>(count) * sizeof(T), std::align_val_t{64}, std::nothrow);
      if (data == nullptr) {
        return fail(ErrorCode::kTooLarge, "[memory] cannot allocate {} bytes", static_cast<size_t>(count) * sizeof(T));
      }
      buffer.data_.reset(static_cast<T*>(data));
      buffer.size_ = count;
    }
    return buffer;
  }
  T* data() noexcept { return data_.get(); }
  const T* data() const noexcept { return data_.get(); }
  int64_t size() const noexcept { return size_; }
  std::span<T> span() noexcept { return {data_.get(), static_cast<size_t>(size_)}; }
  std::span<const T> span() const noexcept { return {data_.get(), static_cast<size_t>(size_)}; }

 private:
  struct Free {
    void operator()(T* p) const noexcept { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<T[], Free> data_;
  int64_t size_ = 0;
};

}  // namespace ropewalk
