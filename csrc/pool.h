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
  void wait_past(int seen, int spins);

 private:
  std::atomic<int> value_{0};
  std::atomic<int> sleepers_{0};
};

class Pool {
 public:
  explicit Pool(int n_threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int size() const { return n_threads_; }

  // Runs work(context, thread) on every thread, the caller being thread 0; returns when all are done.
  void run(void (*work)(void*, int), void* context);

  // Called by every thread inside run: nobody passes before all have arrived.
  void barrier();

 private:
  void serve(int thread);

  const int n_threads_;
  std::vector<std::thread> threads_;
  void (*work_)(void*, int) = nullptr;  // null: stop
  void* context_ = nullptr;

  alignas(64) Signal rounds_;                  // raised once per run
  alignas(64) std::atomic<int> arrived_{0};  // threads waiting at the barrier
  alignas(64) Signal phases_;                  // raised once per barrier
};

}  // namespace unspool
