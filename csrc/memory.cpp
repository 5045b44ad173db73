#include "memory.h"

#include <new>

#if defined(__linux__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#else
#include <stdlib.h>
#include <string.h>
#endif

namespace unspool {

#if defined(__linux__) || defined(__APPLE__)

Memory::Memory(size_t bytes) : bytes_(bytes) {
  if (!bytes) return;
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    throw std::bad_alloc();
  }
#if defined(MADV_HUGEPAGE)
  // Weights are read from end to end each step: huge pages spare the translation misses.
  madvise(data_, bytes, MADV_HUGEPAGE);
#endif
}

Memory::~Memory() {
  if (data_) munmap(data_, bytes_);
}

void release_mapped(const void* from, size_t bytes) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)from;
  const uintptr_t first = (begin + page - 1) / page * page, last = (begin + bytes) / page * page;
  if (first < last) madvise((void*)first, last - first, MADV_DONTNEED);
}

#else

Memory::Memory(size_t bytes) : bytes_(bytes) {
  if (!bytes) return;
  data_ = _aligned_malloc(bytes, 64);
  if (!data_) throw std::bad_alloc();
  memset(data_, 0, bytes);
}

Memory::~Memory() {
  if (data_) _aligned_free(data_);
}

void release_mapped(const void*, size_t) {}

#endif

uint8_t* Arena::take(size_t bytes) {
  bytes = (bytes + 63) / 64 * 64;
  if (bytes > left_) {
    const size_t size = bytes > kBlock ? bytes : kBlock;
    blocks_.emplace_back(size + kHuge);
    uint8_t* data = blocks_.back().as<uint8_t>();
    at_ = data + (kHuge - reinterpret_cast<uintptr_t>(data) % kHuge) % kHuge;
    left_ = size;
  }
  uint8_t* piece = at_;
  at_ += bytes;
  left_ -= bytes;
  return piece;
}

}  // namespace unspool
