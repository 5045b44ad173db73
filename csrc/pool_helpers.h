// The threads of the forward pass as helpers of the fused pass: they are awake when a forward pass has ended.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>

#include "pool.h"
#include "sampling/crew.h"
#include "turn.h"

namespace unspool {

class PoolHelpers : public sampling::Helpers {
 public:
  // `turn` is held by whoever runs anything on the pool.
  PoolHelpers(Pool& pool, Turn& turn) : pool_(pool), turn_(turn) {}

  void run(int n, const std::function<void(int)>& work) override {
    const std::lock_guard<Turn> turn(turn_);
    Round round = {work, n};
    if (n < 2) return round.help();
    pool_.run([](void* self, int) { static_cast<Round*>(self)->help(); }, &round);
  }

 private:
  struct Round {
    const std::function<void(int)>& work;
    const int n;
    std::atomic<int> next{0};
    void help() {
      for (int i = next.fetch_add(1); i < n; i = next.fetch_add(1)) work(i);
    }
  };

  Pool& pool_;
  Turn& turn_;
};

}  // namespace unspool
