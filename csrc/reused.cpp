#include "reused.h"

#include <algorithm>

namespace unspool {

std::shared_ptr<void> Reused::take(const std::shared_ptr<Reused>& self, size_t bytes) {
  Memory memory = self->best(bytes);
  void* data = memory.as<void>();
  // The deleter owns the memory, and must be one that can be copied.
  auto owned = std::make_shared<Memory>(std::move(memory));
  return std::shared_ptr<void>(data, [owned, home = std::weak_ptr<Reused>(self)](void*) {
    if (auto still_there = home.lock()) still_there->keep(std::move(*owned));
  });
}

size_t Reused::kept_bytes() {
  const std::lock_guard<std::mutex> turn(mutex_);
  size_t total = 0;
  for (const Memory& memory : free_) total += memory.bytes();
  return total;
}

// The smallest that is large enough; a new one where none is.
Memory Reused::best(size_t bytes) {
  const std::lock_guard<std::mutex> turn(mutex_);
  auto found = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it)
    if (it->bytes() >= bytes && (found == free_.end() || it->bytes() < found->bytes())) found = it;
  if (found == free_.end()) return Memory(std::max<size_t>(bytes, 64));
  Memory memory = std::move(*found);
  free_.erase(found);
  return memory;
}

// Of too many the smallest is dropped: it is of least use.
void Reused::keep(Memory memory) {
  if (memory.bytes() > kMost) return;
  const std::lock_guard<std::mutex> turn(mutex_);
  free_.push_back(std::move(memory));
  if (free_.size() <= kFew) return;
  free_.erase(std::min_element(free_.begin(), free_.end(),
                               [](const Memory& a, const Memory& b) { return a.bytes() < b.bytes(); }));
}

}  // namespace unspool
