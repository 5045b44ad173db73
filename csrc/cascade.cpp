#include "cascade.h"

#include <string.h>

#include <algorithm>

#include "kernels.h"

namespace unspool {

void Cascade::find(const Plan& plan, int page_size) {
  plan_ = &plan;
  segment_pages_ = kSegment / page_size;
  stretches_.clear();
  sequences_.clear();
  own_first_.assign(plan.n_sequences, 0);
  for (int s = 0; s < plan.n_sequences; ++s)
    if (plan.seq_start[s + 1] > plan.seq_start[s] && read_before(s, 0)) sequences_.push_back(s);
  if (sequences_.size() < 2) return;
  open_.assign(1, {0, (int)sequences_.size(), 0});
  while (!open_.empty()) {
    const Group group = open_.back();
    open_.pop_back();
    extend(group);
  }
}

// Follows a group to where it parts, and opens the groups that it falls into there.
void Cascade::extend(Group group) {
  const auto begin = sequences_.begin() + group.begin, end = sequences_.begin() + group.end;
  const int first = group.segment, leader = *begin;
  int at = first;
  while (std::all_of(begin, end, [&](int s) { return read_before(s, at) && same(s, leader, at); })) ++at;
  if (at > first) stretches_.push_back({group.begin, group.end, first, at});
  for (auto s = begin; s != end; ++s) own_first_[*s] = at;

  const auto open_end = std::partition(begin, end, [&](int s) { return read_before(s, at); });
  const size_t bytes = segment_pages_ * sizeof(int32_t);
  std::sort(begin, open_end, [&](int a, int b) { return memcmp(pages(a, at), pages(b, at), bytes) < 0; });
  for (auto from = begin; from != open_end;) {
    auto to = from + 1;
    while (to != open_end && same(*to, *from, at)) ++to;
    if (to - from > 1)
      open_.push_back({(int)(from - sequences_.begin()), (int)(to - sequences_.begin()), at});
    from = to;
  }
}

bool Cascade::read_before(int sequence, int segment) const {
  return plan_->n_past[sequence] >= (segment + 1) * kSegment;
}

const int32_t* Cascade::pages(int sequence, int segment) const {
  return plan_->page_table + plan_->page_start[sequence] + segment * segment_pages_;
}

bool Cascade::same(int sequence, int other, int segment) const {
  return memcmp(pages(sequence, segment), pages(other, segment), segment_pages_ * sizeof(int32_t)) == 0;
}

}  // namespace unspool
