#include "crew.h"

#include <system_error>
#if !defined(_WIN32)
#include <unistd.h>
#endif

namespace unspool::sampling {

struct Crew::Shared {
  std::mutex turn;  // held by the caller who is being helped
  std::mutex mutex;
  std::condition_variable started, ended;
  const std::function<void(int)>* work = nullptr;  // null between runs
  int n = 0;
  std::atomic<int> next{0};
  int n_helping = 0;  // threads inside work
  long round = 0;
  bool over = false;

  void help(const std::function<void(int)>& task, int last) {
    for (int i = next.fetch_add(1); i < last; i = next.fetch_add(1)) task(i);
  }

  void serve() {
    std::unique_lock<std::mutex> lock(mutex);
    for (long seen = 0;; seen = round) {
      started.wait(lock, [&] { return over || round != seen; });
      if (over) return;
      if (!work) continue;
      const auto& task = *work;
      const int last = n;
      ++n_helping;
      lock.unlock();
      help(task, last);
      lock.lock();
      if (--n_helping == 0) ended.notify_one();
    }
  }
};

namespace {

long this_process() {
#if defined(_WIN32)
  return 1;
#else
  return (long)getpid();
#endif
}

}  // namespace

Crew::~Crew() {
  if (!shared_) return;
  if (process_ != this_process()) {  // the threads are the parent's: neither joined nor destroyed
    new std::vector<std::thread>(std::move(threads_));
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->over = true;
  }
  shared_->started.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Crew::start() {
  const std::lock_guard<std::mutex> lock(starting_);
  if (shared_ && process_ == this_process()) return;
  if (!threads_.empty()) new std::vector<std::thread>(std::move(threads_));  // a parent's
  threads_.clear();
  auto shared = std::make_shared<Shared>();
  try {
    for (int i = 1; i < n_threads_; ++i) threads_.emplace_back([shared] { shared->serve(); });
  } catch (const std::system_error&) {  // with those that there are
  }
  process_ = this_process();
  shared_ = shared;
}

void Crew::run(int n, const std::function<void(int)>& work) {
  if (n > 1 && n_threads_ > 1) {
    start();
    const auto shared = shared_;
    const std::unique_lock<std::mutex> turn(shared->turn, std::try_to_lock);
    if (turn.owns_lock()) {
      {
        const std::lock_guard<std::mutex> lock(shared->mutex);
        shared->work = &work;
        shared->n = n;
        shared->next.store(0);
        ++shared->round;
      }
      shared->started.notify_all();
      shared->help(work, n);
      std::unique_lock<std::mutex> lock(shared->mutex);
      shared->work = nullptr;
      shared->ended.wait(lock, [&] { return shared->n_helping == 0; });
      return;
    }
  }
  for (int i = 0; i < n; ++i) work(i);
}

}  // namespace unspool::sampling
