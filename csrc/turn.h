// A lock whose waiters are not left waiting in a forked child for a thread that stayed in the parent.
#pragma once
#include <atomic>
#include <stdexcept>

#include "pool.h"

namespace unspool {

// The process was forked while another thread had its turn: what it was doing is half done here, for good.
struct Forked : std::runtime_error {
  Forked();
};

class Turn {
 public:
  void lock();  // throws Forked
  void unlock();

  // `lock` for who needs nothing of what the other thread was doing: the turn is taken from it.
  void lock_anew();

 private:
  bool try_lock(int process, int& holder);

  std::atomic<int> holder_{0};  // the process whose thread has its turn; 0: nobody has
  Signal freed_;
};

}  // namespace unspool
