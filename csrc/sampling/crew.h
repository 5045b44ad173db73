// Threads that help with the rows of a step and sleep in between: a step of one row wakes none of them.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace unspool::sampling {

class Crew {
 public:
  explicit Crew(int n_threads) : n_threads_(n_threads) {}
  ~Crew();
  Crew(const Crew&) = delete;

  // work(i) for every i in [0, n), in any order, on the caller's thread and others; returns when all are
  // done. work must not throw. Threads are started when they are first of use, in a forked child anew; where
  // the system gives none, or another caller is being helped, the caller does it all.
  void run(int n, const std::function<void(int)>& work);

 private:
  struct Shared;
  void start();

  const int n_threads_;
  std::mutex starting_;
  std::shared_ptr<Shared> shared_;  // with the threads
  std::vector<std::thread> threads_;
  long process_ = 0;
};

}  // namespace unspool::sampling
