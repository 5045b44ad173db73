// The fused pass: every row of a step through its program to its token.
#pragma once
#include <memory>
#include <vector>

#include "crew.h"
#include "program.h"
#include "vectors.h"

namespace unspool::sampling {

class Sampler {
 public:
  Sampler(const Vectors& vectors, std::unique_ptr<Helpers> helpers)
      : vectors_(vectors), helpers_(std::move(helpers)) {}

  // results[i] is what becomes of jobs[i], whoever else is there. Rows are n_vocab wide.
  void run(const std::vector<RowJob>& jobs, int n_vocab, const std::vector<int>& n_candidates,
           std::vector<RowResult>& results);

  const char* isa() const { return vectors_.name; }

 private:
  const Vectors& vectors_;
  const std::unique_ptr<Helpers> helpers_;
};

}  // namespace unspool::sampling
