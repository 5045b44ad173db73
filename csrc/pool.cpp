#include "pool.h"

#include "pause.h"

#if defined(__linux__)
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#endif
#if !defined(_WIN32)
#include <unistd.h>
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

long this_process() {
#if defined(_WIN32)
  return 1;
#else
  return (long)getpid();
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
  rounds_.raise();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

// After a fork: handles of threads that are not here can be neither joined nor destroyed.
void Pool::leave_behind() {
  new std::vector<std::thread>(std::move(threads_));
  threads_.clear();
  arrived_.store(0);
}

void Pool::run(void (*work)(void*, int), void* context) {
  if (process_ != this_process()) {
    leave_behind();
    start();
  }
  work_ = work;
  context_ = context;
  rounds_.raise();
  work(context, 0);
  barrier(pause);
}

void Pool::serve(int thread, int seen) {
  for (;; ++seen) {
    rounds_.wait_past(seen, kRoundSpins, pause);
    if (!work_) return;
    work_(context_, thread);
    barrier(pause);
  }
}

}  // namespace unspool
