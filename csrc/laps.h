// When threads ran what, for those who ask where the time goes.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <chrono>
#include <vector>

namespace unspool {

// One thread's work on an instruction, or on some of its rows: nanoseconds of the steady clock. From `ready`
// to `began` it waited for others to end theirs.
struct Lap {
  int64_t instruction, ready, began, ended;
};

// The laps of one thread in the order in which it ran them. Unless they are asked for, no clock is read.
class alignas(64) Laps {
 public:
  // Forgets all, and takes the memory for `most` laps now: threads take none while they work.
  void start(bool noted, size_t most) {
    noted_ = noted;
    laps_.clear();
    if (noted) laps_.reserve(most);
  }

  void ready() {
    if (noted_) ready_ = now();
  }
  void began() {
    if (noted_) began_ = now();
  }
  // What the thread does next it begins at once.
  void ended(size_t instruction) {
    if (!noted_) return;
    const int64_t moment = now();
    laps_.push_back({(int64_t)instruction, ready_, began_, moment});
    ready_ = began_ = moment;
  }

  const std::vector<Lap>& all() const { return laps_; }

 private:
  static int64_t now() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }

  bool noted_ = false;
  int64_t ready_ = 0, began_ = 0;
  std::vector<Lap> laps_;
};

}  // namespace unspool
