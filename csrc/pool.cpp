#include "pool.h"

#include "pause.h"
#include "process.h"

#if defined(__linux__)
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

namespace unspool {

namespace {

// Between runs the next one follows within a few hundred microseconds, or not soon.
constexpr int kRoundSpins = 8000;

static_assert(sizeof(std::atomic<int>) == sizeof(int), "the kernel waits on plain integers");

void sleep_while(std::atomic<int>& word, int value) {
#if defined(__linux__)
  syscall(SYS_futex, reinterpret_cast<int*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
#else
  if (word.load(std::memory_order_acquire) == value) std::this_thread::yield();
#endif
}

void wake_all(std::atomic<int>& word) {
#if defined(__linux__)
  syscall(SYS_futex, reinterpret_cast<int*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
#else
  (void)word;
#endif
}

}  // namespace

// Both orders are sequentially consistent: either raise() sees the sleeper, or the sleeper the new value.
void Signal::raise() {
  value_.fetch_add(1);
  if (sleepers_.load() > 0) wake_all(value_);
}

void Signal::sleep_past(int seen) {
  sleepers_.fetch_add(1);
  while (value_.load() == seen) sleep_while(value_, seen);
  sleepers_.fetch_sub(1);
}

Pool::Pool(int n_threads) : n_threads_(n_threads) {
  start();
}

Pool::~Pool() {
  if (process_ == this_process())
    stop();
  else
    leave_behind();
}

void Pool::start() {
  const int seen = rounds_.value();
  try {
    for (int i = 1; i < n_threads_; ++i) threads_.emplace_back([this, i, seen] { serve(i, seen); });
  } catch (...) {
    stop();
    throw;
  }
  process_ = this_process();
}

void Pool::stop() {
  work_ = nullptr;
  door_.store(kOpen);
  rounds_.raise();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

// After a fork: handles of threads that are not here can be neither joined nor destroyed.
void Pool::leave_behind() {
  new std::vector<std::thread>(std::move(threads_));
  threads_.clear();
  door_.store(0);
}

void Pool::round(void (*work)(void*, int), void* context, bool with_all) {
  if (n_threads_ == 1) return work(context, 0);
  if (process_ != this_process()) {
    leave_behind();
    start();
  }
  work_ = work;
  context_ = context;
  number_ = (int)((unsigned)rounds_.value() + 1);
  n_left_.store(0, std::memory_order_relaxed);
  door_.store(kOpen);  // nobody is inside
  rounds_.raise();
  work(context, 0);
  const auto wait_until = [this](auto&& is_so) {
    for (int seen = left_.value(); !is_so(); seen = left_.value()) left_.wait_past(seen, kSpins, pause);
  };
  if (with_all) wait_until([this] { return n_left_.load() == n_threads_ - 1; });
  door_.fetch_and(~kOpen);
  wait_until([this] { return door_.load() == 0; });
}

bool Pool::enter() {
  int door = door_.load();
  do {
    if (!(door & kOpen)) return false;
  } while (!door_.compare_exchange_weak(door, door + 1));
  return true;
}

void Pool::leave() {
  n_left_.fetch_add(1);
  door_.fetch_sub(1);
  left_.raise();
}

void Pool::serve(int thread, int seen) {
  for (;;) {
    rounds_.wait_for((int)((unsigned)seen + 1), kRoundSpins, pause);
    seen = rounds_.value();
    if (!enter()) continue;  // came too late
    // Of this round or a later one, whose door opens before all are told: nobody is to enter that twice.
    seen = number_;
    if (!work_) return;
    work_(context_, thread);
    leave();
  }
}

}  // namespace unspool
