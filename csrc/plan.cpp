#include "plan.h"

#include <stdexcept>

namespace unspool {

PlanCheck::PlanCheck(int vocab_size, int context_length, int n_pages, int page_size)
    : vocab_size_(vocab_size),
      context_length_(context_length),
      n_pages_(n_pages),
      page_size_(page_size),
      written_(n_pages, 0) {}

namespace {

void require(bool good, const char* what) {
  if (!good) throw std::invalid_argument(what);
}

void check_starts(const int32_t* starts, int n, int end, const char* what) {
  require(starts[0] == 0 && starts[n] == end, what);
  for (int i = 0; i < n; ++i) require(starts[i] <= starts[i + 1], what);
}

}  // namespace

void PlanCheck::check(const Plan& p) {
  check_starts(p.seq_start, p.n_sequences, p.n_rows, "plan: seq_start");
  check_starts(p.page_start, p.n_sequences, p.n_table, "plan: page_start");
  for (int i = 0; i < p.n_table; ++i)
    require(p.page_table[i] >= 0 && p.page_table[i] < n_pages_, "plan: page id out of range");
  ++epoch_;
  for (int s = 0; s < p.n_sequences; ++s) {
    const int64_t n = p.seq_start[s + 1] - p.seq_start[s], past = p.n_past[s];
    const int64_t covered = (int64_t)(p.page_start[s + 1] - p.page_start[s]) * page_size_;
    require(past >= 0, "plan: n_past is negative");
    require(past + n <= context_length_, "plan: a sequence is longer than the context");
    require(past + n <= covered, "plan: a page table does not cover its sequence");
    for (int64_t i = past / page_size_; n > 0 && i <= (past + n - 1) / page_size_; ++i) {
      int64_t& mark = written_[p.page_table[p.page_start[s] + i]];
      require(mark != epoch_, "plan: a page is written twice");
      mark = epoch_;
    }
  }
  for (int r = 0; r < p.n_rows; ++r)
    require(p.token_ids[r] >= 0 && p.token_ids[r] < vocab_size_, "plan: token id out of range");
  for (int w = 0; w < p.n_wanted; ++w) {
    require(p.logits_rows[w] >= 0 && p.logits_rows[w] < p.n_rows, "plan: logits row out of range");
    require(w == 0 || p.logits_rows[w] > p.logits_rows[w - 1], "plan: logits rows must ascend");
  }
}

}  // namespace unspool
