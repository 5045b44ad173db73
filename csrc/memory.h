// Zeroed, 64-byte aligned memory that grows into the process only as it is touched.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace unspool {

class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void swap(Memory& other) {
    void* data = data_;
    size_t bytes = bytes_;
    data_ = other.data_;
    bytes_ = other.bytes_;
    other.data_ = data;
    other.bytes_ = bytes;
  }

  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace unspool
