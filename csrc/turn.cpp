#include "turn.h"

#include "pause.h"
#include "process.h"

namespace unspool {

// The next turn is some microseconds away, or as long as a forward pass.
static constexpr int kTurnSpins = 100;

Forked::Forked()
    : std::runtime_error(
          "the process was forked while another thread of it was using this model; "
          "load the model anew in the child") {}

void Turn::lock() {
  const int process = this_process();
  for (int seen = freed_.value(), holder; !try_lock(process, holder); seen = freed_.value()) {
    if (holder != process && holder != 0) throw Forked();
    freed_.wait_past(seen, kTurnSpins, pause);
  }
}

void Turn::lock_anew() {
  const int process = this_process();
  for (int seen = freed_.value(), holder; !try_lock(process, holder); seen = freed_.value()) {
    if (holder != process && holder_.compare_exchange_strong(holder, process)) return;
    freed_.wait_past(seen, kTurnSpins, pause);
  }
}

void Turn::unlock() {
  holder_.store(0);
  freed_.raise();
}

bool Turn::try_lock(int process, int& holder) {
  holder = 0;
  return holder_.compare_exchange_strong(holder, process);
}

}  // namespace unspool
