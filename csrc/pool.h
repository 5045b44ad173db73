// A fixed pool of threads that walk one function together, with barriers inside it.
#pragma once
#include <atomic>
#include <thread>
#include <vector>

namespace unspool {

// A counter that threads wait on: for a moment in a loop, then asleep, so that a core which another
// process wants is given away, and a waiter that slept is woken at once when its time comes.
class Signal {
 public:
  int value() const { return value_.load(std::memory_order_acquire); }
  void raise();

  // Calls idle() over and over until the value is another than `seen`, at most `spins` times, then sleeps.
  template <class Idle>
  void wait_past(int seen, int spins, Idle&& idle) {
    for (int i = 0; i < spins; ++i) {
      if (value() != seen) return;
      idle();
    }
    sleep_past(seen);
  }

 private:
  void sleep_past(int seen);

  std::atomic<int> value_{0};
  std::atomic<int> sleepers_{0};
};

class Pool {
 public:
  explicit Pool(int n_threads);  // throws std::system_error when the system gives no more threads
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int size() const { return n_threads_; }

  // Runs work(context, thread) on every thread, the caller being thread 0; returns when all are done.
  // A forked child has none of its parent's threads and starts its own here.
  void run(void (*work)(void*, int), void* context);

  // Called by every thread inside run: nobody passes before all have arrived. Who waits calls idle().
  template <class Idle>
  void barrier(Idle&& idle) {
    if (n_threads_ == 1) return;
    const int phase = phases_.value();
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == n_threads_ - 1) {
      arrived_.store(0, std::memory_order_relaxed);
      phases_.raise();
    } else {
      phases_.wait_past(phase, kBarrierSpins, idle);
    }
  }

 private:
  // At a barrier the others are some microseconds away, unless they lost their core.
  static constexpr int kBarrierSpins = 2000;

  void start();
  void stop();
  void leave_behind();
  void serve(int thread, int seen);

  const int n_threads_;
  std::vector<std::thread> threads_;
  long process_ = 0;                    // whose threads they are
  void (*work_)(void*, int) = nullptr;  // null: stop
  void* context_ = nullptr;

  alignas(64) Signal rounds_;                // raised once per run
  alignas(64) std::atomic<int> arrived_{0};  // threads waiting at the barrier
  alignas(64) Signal phases_;                // raised once per barrier
};

}  // namespace unspool
