#include "limits.h"

#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "memory.h"

namespace unspool {

static constexpr int kTries = 5;  // the best counts: what else runs only ever takes time away

static double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The shortest time of `pool.run_all(work, &job)`.
template <class Job>
static double best_seconds(Pool& pool, void (*work)(void*, int), Job& job) {
  double best = 1e30;
  for (int i = 0; i < kTries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    pool.run_all(work, &job);
    best = std::min(best, seconds_since(start));
  }
  return best;
}

namespace {

struct ReadJob {
  const uint64_t* data;
  size_t n;  // words
  int n_threads;
  std::vector<uint64_t> sums;
};

struct DotJob {
  const Kernels& kernels;
  int rounds;
  std::vector<int> sums;
};

void read_part(void* context, int thread) {
  auto& job = *static_cast<ReadJob*>(context);
  const size_t first = job.n * thread / job.n_threads, last = job.n * (thread + 1) / job.n_threads;
  uint64_t sum = 0;
  for (size_t i = first; i < last; ++i) sum += job.data[i];
  job.sums[thread] = sum;  // so that the loop is not left out
}

void multiply(void* context, int thread) {
  auto& job = *static_cast<DotJob*>(context);
  job.sums[thread] = job.kernels.dots(job.rounds);
}

}  // namespace

double read_rate(Pool& pool) {
  constexpr size_t kBytes = 256 << 20;  // more than the last-level caches of most machines
  Memory memory(kBytes);
  memset(memory.as<uint8_t>(), 1, kBytes);  // untouched pages are all one page of zeros
  ReadJob job = {memory.as<uint64_t>(), kBytes / sizeof(uint64_t), pool.size(),
                 std::vector<uint64_t>(pool.size())};
  return kBytes / best_seconds(pool, read_part, job);
}

double integer_rate(const Kernels& kernels, Pool& pool) {
  constexpr int kRounds = 200000;
  DotJob job = {kernels, kRounds, std::vector<int>(pool.size())};
  return (double)kRounds * kDotsARound * pool.size() / best_seconds(pool, multiply, job);
}

}  // namespace unspool
