// Arrays for results, whose memory is used again when nobody holds the array any more: a step asks the system
// for none, and touches no page for the first time.
#pragma once
#include <stddef.h>

#include <memory>
#include <mutex>
#include <vector>

#include "memory.h"

namespace unspool {

// Any thread may take and give back.
class Reused {
 public:
  // At least so many bytes, with whatever they held before. They go back where the pointer dies, unless this
  // is gone by then, or they are too many to be kept.
  static std::shared_ptr<void> take(const std::shared_ptr<Reused>& self, size_t bytes);

  size_t kept_bytes();

 private:
  static constexpr size_t kFew = 2;          // one is read while the next is written
  static constexpr size_t kMost = 64 << 20;  // bytes of one that is kept: the logits of many rows go back

  Memory best(size_t bytes);
  void keep(Memory memory);

  std::mutex mutex_;
  std::vector<Memory> free_;
};

}  // namespace unspool
