#include "pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define UNSPOOL_PAUSE() _mm_pause()
#else
#define UNSPOOL_PAUSE() ((void)0)
#endif

namespace unspool {

// A waiting thread spins briefly (the next op is a microsecond away), then gives its core away: when
// another process holds the core of the thread waited for, spinning on would starve it.
constexpr int kSpins = 4000;
// Between runs a worker yields this many times, a few hundred microseconds, before it sleeps: long
// enough for the next decode step, short enough that an idle engine costs nothing.
constexpr int kYields = 200;

Pool::Pool(int n_threads) : n_threads_(n_threads) {
  for (int i = 1; i < n_threads_; ++i) threads_.emplace_back([this, i] { serve(i); });
}

Pool::~Pool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    round_.fetch_add(1);
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Pool::wait_while(const std::atomic<int>& word, int value) {
  for (;;) {
    for (int i = 0; i < kSpins; ++i) {
      if (word.load(std::memory_order_acquire) != value) return;
      UNSPOOL_PAUSE();
    }
    std::this_thread::yield();
  }
}

void Pool::run(void (*work)(void*, int), void* context) {
  work_ = work;
  context_ = context;
  round_.fetch_add(1);
  if (sleepers_.load() > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  work(context, 0);
  barrier();
}

void Pool::barrier() {
  if (n_threads_ == 1) return;
  const int phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == n_threads_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
  } else {
    wait_while(phase_, phase);
  }
}

void Pool::serve(int thread) {
  int seen = 0;
  for (;;) {
    for (int yields = 0; round_.load(std::memory_order_acquire) == seen && yields < kYields; ++yields) {
      for (int i = 0; i < 64 && round_.load(std::memory_order_acquire) == seen; ++i) UNSPOOL_PAUSE();
      std::this_thread::yield();
    }
    if (round_.load(std::memory_order_acquire) == seen) {
      std::unique_lock<std::mutex> lock(mutex_);
      // The caller raises round_ before it reads sleepers_, and we raise sleepers_ before we read
      // round_: one of the two sees the other.
      sleepers_.fetch_add(1);
      wake_.wait(lock, [&] { return round_.load() != seen; });
      sleepers_.fetch_sub(1);
    }
    ++seen;
    if (stop_) return;
    work_(context_, thread);
    barrier();
  }
}

}  // namespace unspool
