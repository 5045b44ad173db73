#include "crew.h"

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "../process.h"

namespace unspool::sampling {

struct Crew::Shared {
  const int process = this_process();  // whose threads they are
  std::vector<std::thread> threads;
  std::mutex turn;  // held by the caller who is being helped
  std::mutex mutex;
  std::condition_variable started, ended;
  const std::function<void(int)>* work = nullptr;  // null between runs
  int n = 0;
  std::atomic<int> next{0};
  int n_helping = 0;  // threads inside work
  long round = 0;
  bool over = false;

  explicit Shared(int n_threads) {
    try {
      for (int i = 1; i < n_threads; ++i) threads.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {  // with those that there are
    }
  }
  ~Shared() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      over = true;
    }
    started.notify_all();
    for (auto& thread : threads) thread.join();
  }

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

Crew::~Crew() {
  Shared* shared = shared_.load();
  if (shared && shared->process == this_process())
    delete shared;  // a parent's can be neither joined nor freed
}

Crew::Shared& Crew::shared() {
  Shared* shared = shared_.load();
  if (shared && shared->process == this_process()) return *shared;
  starting_.lock_anew();
  const std::lock_guard<Turn> turn(starting_, std::adopt_lock);
  shared = shared_.load();
  if (!shared || shared->process != this_process()) shared_.store(shared = new Shared(n_threads_));
  return *shared;
}

void Crew::run(int n, const std::function<void(int)>& work) {
  if (n > 1 && n_threads_ > 1) {
    Shared& shared = this->shared();
    const std::unique_lock<std::mutex> turn(shared.turn, std::try_to_lock);
    if (turn.owns_lock()) {
      {
        const std::lock_guard<std::mutex> lock(shared.mutex);
        shared.work = &work;
        shared.n = n;
        shared.next.store(0);
        ++shared.round;
      }
      shared.started.notify_all();
      shared.help(work, n);
      std::unique_lock<std::mutex> lock(shared.mutex);
      shared.work = nullptr;
      shared.ended.wait(lock, [&] { return shared.n_helping == 0; });
      return;
    }
  }
  for (int i = 0; i < n; ++i) work(i);
}

}  // namespace unspool::sampling
