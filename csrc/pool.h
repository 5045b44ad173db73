// A fixed pool of threads that come to work together when there is some, and sleep in between.
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

  // Until the value is `least` or one that is counted later.
  template <class Idle>
  void wait_for(int least, int spins, Idle&& idle) {
    for (int now = value(); before(now, least); now = value()) wait_past(now, spins, idle);
  }

  static bool before(int a, int b) { return (int)((unsigned)a - (unsigned)b) < 0; }

 private:
  void sleep_past(int seen);

  std::atomic<int> value_{0};
  std::atomic<int> sleepers_{0};
};

// Who has lost its core to another process must hold nobody up but with what it had begun: a round of work
// ends when the work is done, and a thread that comes later finds the door closed.
class Pool {
 public:
  // A wait inside a round: the others are some microseconds away, unless they lost their core.
  static constexpr int kSpins = 2000;

  explicit Pool(int n_threads);  // throws std::system_error when the system gives no more threads
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int size() const { return n_threads_; }

  // Runs work(context, thread) on the caller, as thread 0, and on each other thread that comes before the
  // caller is through; returns when all who came have left. So work is to be shared by claims on what is left
  // of it, and the caller's call must end only when all of it is done.
  // A forked child has none of its parent's threads and starts its own here.
  void run(void (*work)(void*, int), void* context) { round(work, context, false); }

  // The same with every thread: the caller waits for those that have not come yet.
  void run_all(void (*work)(void*, int), void* context) { round(work, context, true); }

 private:
  // The door of a round: how many other threads are inside, and whether more may enter.
  static constexpr int kOpen = 1 << 30;

  void start();
  void stop();
  void leave_behind();
  void round(void (*work)(void*, int), void* context, bool with_all);
  bool enter();
  void leave();
  void serve(int thread, int seen);

  const int n_threads_;
  std::vector<std::thread> threads_;
  int process_ = 0;                     // whose threads they are
  void (*work_)(void*, int) = nullptr;  // of the round, as the next two; read by who is inside. Null: stop
  void* context_ = nullptr;
  int number_ = 0;  // what rounds_ comes to with it

  alignas(64) Signal rounds_;  // raised once per round
  alignas(64) std::atomic<int> door_{0};
  alignas(64) Signal left_;  // raised by each thread that leaves a round
  std::atomic<int> n_left_{0};
};

}  // namespace unspool
