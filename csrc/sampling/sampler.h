// The fused pass: every row of a step through its program to its token.
#pragma once
#include <vector>

#include "crew.h"
#include "program.h"
#include "vectors.h"

namespace unspool::sampling {

class Sampler {
 public:
  Sampler(int n_threads, const Vectors& vectors) : vectors_(vectors), crew_(n_threads) {}

  // results[i] is what becomes of jobs[i], whoever else is there. Rows are n_vocab wide.
  void run(const std::vector<RowJob>& jobs, int n_vocab, const std::vector<int>& n_candidates,
           std::vector<RowResult>& results);

  const char* isa() const { return vectors_.name; }

 private:
  const Vectors& vectors_;
  Crew crew_;
};

}  // namespace unspool::sampling
