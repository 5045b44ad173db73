#include "pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define UNSPOOL_PAUSE() _mm_pause()
#else
#define UNSPOOL_PAUSE() ((void)0)
#endif

#if defined(__linux__)
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace unspool {

namespace {

// At a barrier the others are some microseconds away, unless they lost their core.
constexpr int kBarrierSpins = 2000;
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

void Signal::wait_past(int seen, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value() != seen) return;
    UNSPOOL_PAUSE();
  }
  sleepers_.fetch_add(1);
  while (value_.load() == seen) sleep_while(value_, seen);
  sleepers_.fetch_sub(1);
}

Pool::Pool(int n_threads) : n_threads_(n_threads) {
  for (int i = 1; i < n_threads_; ++i) threads_.emplace_back([this, i] { serve(i); });
}

Pool::~Pool() {
  work_ = nullptr;
  rounds_.raise();
  for (auto& thread : threads_) thread.join();
}

void Pool::run(void (*work)(void*, int), void* context) {
  work_ = work;
  context_ = context;
  rounds_.raise();
  work(context, 0);
  barrier();
}

void Pool::barrier() {
  if (n_threads_ == 1) return;
  const int phase = phases_.value();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == n_threads_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    phases_.raise();
  } else {
    phases_.wait_past(phase, kBarrierSpins);
  }
}

void Pool::serve(int thread) {
  for (int seen = 0;; ++seen) {
    rounds_.wait_past(seen, kRoundSpins);
    if (!work_) return;
    work_(context_, thread);
    barrier();
  }
}

}  // namespace unspool
