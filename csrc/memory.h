// Zeroed, 64-byte aligned memory that grows into the process only as it is touched.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <vector>

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

// Lets the system drop the memory of a part of a mapped file; reading it again maps it again. Only whole
// pages inside the part are dropped.
void release_mapped(const void* from, size_t bytes);

// Hands out pieces of large blocks, and frees them all at its end. Pieces side by side share huge pages:
// the matrices of a small model are each smaller than one, and reading them from ordinary pages would miss
// the translation buffer thousands of times a step.
class Arena {
 public:
  // 64-byte aligned zeros.
  uint8_t* take(size_t bytes);

 private:
  static constexpr size_t kHuge = 2 << 20;
  static constexpr size_t kBlock = 16 * kHuge;

  std::vector<Memory> blocks_;
  uint8_t* at_ = nullptr;
  size_t left_ = 0;
};

}  // namespace unspool
