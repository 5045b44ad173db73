// What one forward pass is asked to do, and whether it makes sense.
#pragma once
#include <stdint.h>

#include <vector>

namespace unspool {

// Mirrors types.Plan: R rows, B sequences, W wanted rows, P page-table entries (n_table).
struct Plan {
  int n_rows, n_sequences, n_wanted, n_table;
  const int32_t *token_ids, *seq_start, *n_past, *page_table, *page_start, *logits_rows;
};

// Mirrors runners/plan_check.py. A plan comes from our own engine, so a bad one is our mistake; but it must
// never reach memory.
class PlanCheck {
 public:
  PlanCheck(int vocab_size, int context_length, int n_pages, int page_size);

  // Throws std::invalid_argument naming what is wrong.
  void check(const Plan& plan);

 private:
  const int vocab_size_, context_length_, n_pages_, page_size_;
  std::vector<int64_t> written_;  // (n_pages,) the epoch in which a plan last wrote the page
  int64_t epoch_ = 0;
};

}  // namespace unspool
