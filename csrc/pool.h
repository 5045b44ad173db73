// A fixed pool of threads that walk one function together, with barriers inside it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace unspool {

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
  void wait_while(const std::atomic<int>& word, int value);

  const int n_threads_;
  std::vector<std::thread> threads_;
  void (*work_)(void*, int) = nullptr;
  void* context_ = nullptr;

  alignas(64) std::atomic<int> round_{0};    // raised once per run
  alignas(64) std::atomic<int> arrived_{0};  // threads waiting at the barrier
  alignas(64) std::atomic<int> phase_{0};    // raised once per barrier
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> sleepers_{0};
  bool stop_ = false;
};

}  // namespace unspool
