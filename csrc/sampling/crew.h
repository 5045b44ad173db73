// Threads that help with the rows of a step and sleep in between: a step of one row wakes none of them.
#pragma once
#include <atomic>
#include <functional>

#include "../turn.h"

namespace unspool::sampling {

// Who shares the rows of a step: threads of their own, or those of a forward pass.
struct Helpers {
  virtual ~Helpers() = default;
  // work(i) for every i in [0, n), in any order, on the caller's thread and others; returns when all are
  // done. work must not throw.
  virtual void run(int n, const std::function<void(int)>& work) = 0;
};

class Crew : public Helpers {
 public:
  explicit Crew(int n_threads) : n_threads_(n_threads) {}
  ~Crew() override;
  Crew(const Crew&) = delete;

  // Threads are started when they are first of use, in a forked child anew; where the system gives none, or
  // another caller is being helped, the caller does it all.
  void run(int n, const std::function<void(int)>& work) override;

 private:
  struct Shared;
  Shared& shared();

  const int n_threads_;
  Turn starting_;
  std::atomic<Shared*> shared_{nullptr};  // with the threads
};

}  // namespace unspool::sampling
