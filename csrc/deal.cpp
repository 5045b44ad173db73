#include "deal.h"

#include <math.h>

#include <algorithm>

namespace unspool {

// A pass costs about as much as two rows' arithmetic where there is but one.
static double work_of(const Unit& unit) {
  return (double)(unit.n_rows + 1) * (unit.last - unit.first);
}

Deal::Deal(int window, int n_heads, int n_kv_heads, int n_threads)
    : window_(window),
      n_heads_(n_heads),
      n_kv_heads_(n_kv_heads),
      n_threads_(n_threads),
      chunks_((n_heads / n_kv_heads + kMaxQueries - 1) / kMaxQueries),
      block_rows_(std::max(1, kMaxQueries / (n_heads / n_kv_heads))),
      bounds_(n_threads + 1, 0) {}

void Deal::make(const Plan& plan, const Cascade& cascade, const int32_t* positions) {
  plan_ = &plan;
  positions_ = positions;
  blocks_.clear();
  units_.clear();
  rows_.clear();
  // Shared segments come before a sequence's own: the units of a row stand in ascending order.
  for (const Stretch& stretch : cascade.stretches()) add_shared(cascade, stretch);
  for (int s = 0; s < plan.n_sequences; ++s) add_own(s, cascade.own_first(s));
  split_long();
  place_parts();
  place_bounds();
}

void Deal::add_shared(const Cascade& cascade, const Stretch& stretch) {
  const int32_t* pages = plan_->page_table + plan_->page_start[cascade.sequence(stretch.begin)];
  size_t begin = rows_.size();
  for (int i = stretch.begin; i < stretch.end; ++i) {
    const int s = cascade.sequence(i);
    for (int row = plan_->seq_start[s]; row < plan_->seq_start[s + 1]; ++row) {
      if (first_seen(positions_[row]) >= stretch.last) continue;
      rows_.push_back(row);
      if ((int)(rows_.size() - begin) < block_rows_) continue;
      add_block(pages, stretch.first, stretch.last);
      begin = rows_.size();
    }
  }
  if (rows_.size() > begin) add_block(pages, stretch.first, stretch.last);
}

void Deal::add_own(int sequence, int first) {
  const int32_t* pages = plan_->page_table + plan_->page_start[sequence];
  const int end = plan_->seq_start[sequence + 1];
  for (int row = plan_->seq_start[sequence]; row < end; row += block_rows_) {
    const int n = std::min(block_rows_, end - row);
    for (int i = 0; i < n; ++i) rows_.push_back(row + i);
    add_block(pages, first, positions_[row + n - 1] / kSegment + 1);
  }
}

// Of the rows that are no block's yet.
void Deal::add_block(const int32_t* pages, int first, int last) {
  Unit block = {};
  block.rows = blocks_.empty() ? 0 : blocks_.back().rows + blocks_.back().n_rows;
  block.n_rows = (int)rows_.size() - block.rows;
  block.pages = pages;
  block.oldest = block.newest = positions_[rows_[block.rows]];
  for (int i = 1; i < block.n_rows; ++i) {
    const int position = positions_[row(block, i)];
    block.oldest = std::min(block.oldest, position);
    block.newest = std::max(block.newest, position);
  }
  block.first = std::max(first, first_seen(block.oldest));
  block.last = last;
  blocks_.push_back(block);
}

// A block goes as a whole where it is a small part of a thread's work. A long one is split, so that all
// threads end together; but each segment beyond its first piece is a part to be stored and merged, which
// takes a tenth of the arithmetic of many rows. So those are split no further than what leaves no thread
// without work. Few rows wait for memory, not for arithmetic: they are split finely.
void Deal::split_long() {
  constexpr double kMostIdle = 0.05;
  double work = 0;
  for (const Unit& block : blocks_) work += work_of(block);
  const double share = n_threads_ == 1 ? INFINITY : work * n_kv_heads_ / n_threads_;  // in work of one head
  int n_long = 0;
  for (const Unit& block : blocks_) n_long += work_of(block) > share / 4;
  int even = 1;  // pieces of each long block of which all threads get about as many
  const auto idle = [&](int n) {
    const double each = (double)n_long * n_kv_heads_ * n / n_threads_;
    return 1 - each / ceil(each);
  };
  while (n_long > 0 && even < 8 * n_threads_ && idle(even) > kMostIdle) ++even;
  for (const Unit& block : blocks_) {
    const int n_segments = block.last - block.first;
    const int fine = (int)std::min<double>(n_segments, ceil(8 * work_of(block) / share));
    const bool few_rows = block.n_rows * 4 <= block_rows_;
    split(block, work_of(block) <= share / 4 ? 1 : few_rows ? fine : std::min(even, fine));
  }
}

void Deal::split(const Unit& block, int n) {
  const int n_segments = block.last - block.first;
  for (int i = 0; i < n; ++i) {
    Unit unit = block;
    unit.first = block.first + n_segments * i / n;
    unit.last = block.first + n_segments * (i + 1) / n;
    units_.push_back(unit);
  }
}

void Deal::place_parts() {
  parts_.assign(plan_->n_rows, {0, 0, 0});
  for (const Unit& unit : units_)
    for (int i = 0; i < unit.n_rows; ++i) {
      Parts& parts = parts_[row(unit, i)];
      if (parts.n == 0) parts.lead = unit.last;
      parts.n = unit.last - parts.lead + 1;
    }
  n_slots_ = 0;
  for (Parts& parts : parts_) {
    if (parts.n == 1) parts.n = 0;  // the one unit writes the row's output
    parts.at = n_slots_;
    n_slots_ += parts.n;
  }
}

void Deal::place_bounds() {
  const int items_each = n_kv_heads_ * chunks_;
  double work = 0, before = 0;
  for (const Unit& unit : units_) work += work_of(unit);
  int thread = 1, item = 0;
  for (const Unit& unit : units_) {
    const double each = work_of(unit) / items_each;
    for (int i = 0; i < items_each; ++i, ++item, before += each)
      while (thread < n_threads_ && before + each / 2 >= work * thread / n_threads_) bounds_[thread++] = item;
  }
  while (thread <= n_threads_) bounds_[thread++] = item;
}

Item Deal::item(int index) const {
  const int chunk = index % chunks_, kv_head = index / chunks_ % n_kv_heads_, group = n_heads_ / n_kv_heads_;
  return {units_[index / chunks_ / n_kv_heads_], kv_head, kv_head * group + chunk * kMaxQueries,
          std::min(group - chunk * kMaxQueries, kMaxQueries)};
}

int Deal::first_seen(int position) const {
  const int first = window_ > 0 ? position - window_ + 1 : 0;
  return first > 0 ? first / kSegment : 0;
}

}  // namespace unspool
