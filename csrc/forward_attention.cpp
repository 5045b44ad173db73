// Attention of a forward pass: K and V go to their pages, items are attended to, parts are merged. How these
// are dealt out is in deal.h, the arithmetic in kernels/attention.h.
#include <algorithm>

#include "forward.h"

namespace unspool {

void Forward::store_rows(const Instruction& op, int first, int last) {
  const Rows k = rows(op.y), v = rows(op.z);
  size_t sequence = 0;
  for (int row = first; row < last; ++row) {
    while (plan_->seq_start[sequence + 1] <= row) ++sequence;
    const int position = positions_[row];
    const size_t page = plan_->page_table[plan_->page_start[sequence] + position / kv_.page_size];
    for (int h = 0; h < op.n_kv_heads; ++h)
      kernels_.store_kv(k.row(row) + h * kv_.head_dim, v.row(row) + h * kv_.head_dim,
                        kv_.head(op.layer, 0, h) + page * kv_.page_values,
                        kv_.head(op.layer, 1, h) + page * kv_.page_values, position % kv_.page_size,
                        op.shape);
  }
}

// First the thread's own items, whose K and V it may have asked for, then what is left of the others'.
int Forward::attend(const Stage& stage, size_t number, int thread) {
  const Instruction& op = network_.instructions[stage.index];
  const Deal& deal = this->deal(stage.index);
  float* scratch = scratch_.as<float>() + attention_scratch(kv_.head_padded) * thread;
  int n_done = 0;
  for (int i = 0; i < pool_.size(); ++i) {
    const int owner = (thread + i) % pool_.size();
    const int begin = deal.first(owner), end = deal.first(owner + 1);
    std::atomic<int>& next = counter(number, owner);
    for (int item; (item = begin + next.fetch_add(1, std::memory_order_relaxed)) < end; ++n_done)
      attend_item(op, deal, item, item + 1 < end ? item + 1 : kNone, scratch);
  }
  return n_done;
}

void Forward::attend_item(const Instruction& op, const Deal& deal, int index, int next, float* scratch) {
  const Item item = deal.item(index);
  const Rows q = rows(op.x), out = rows(op.out);
  Query queries[kMaxQueries];
  int n = 0;
  for (int i = 0; i < item.unit.n_rows; ++i) {
    const int row = deal.row(item.unit, i);
    const Parts& parts = deal.parts(row);
    for (int h = item.first_head; h < item.first_head + item.n_heads; ++h) {
      const size_t at = (size_t)h * kv_.head_dim;
      float* part = nullptr;
      if (parts.n > 0)
        part = partial(deal, row, h, op.n_heads) + parts.slot(item.unit) * partial_floats(kv_.head_padded);
      queries[n++] = {q.row(row) + at, out.row(row) + at, part, parts.leads(item.unit), positions_[row]};
    }
  }
  kernels_.attend(op.shape, kv_.head(op.layer, 0, item.kv_head), kv_.head(op.layer, 1, item.kv_head),
                  item.unit.pages, queries, n, item.unit.first, item.unit.last, upcoming(op, deal, next),
                  scratch);
}

// The first keys of an item, or nothing where that is kNone.
Upcoming Forward::upcoming(const Instruction& op, const Deal& deal, int index) const {
  if (index == kNone) return {nullptr, nullptr, 0, 0};
  const Item item = deal.item(index);
  const Unit& unit = item.unit;
  const int token = unit.first_token(op.shape) / kv_.page_size * kv_.page_size;
  return {kv_.head(op.layer, 0, item.kv_head), unit.pages, token, unit.end_token()};
}

float* Forward::partial(const Deal& deal, int row, int head, int n_heads) const {
  const Parts& parts = deal.parts(row);
  return partial_.as<float>() +
         ((size_t)parts.at * n_heads + (size_t)head * parts.n) * partial_floats(kv_.head_padded);
}

// Where there are few rows, their heads are spread over the threads.
int Forward::merge_heads(const Stage& stage, size_t number, int thread) {
  const Instruction& op = network_.instructions[stage.index];
  int n_done = 0;
  for (int i = 0; i < pool_.size(); ++i) {
    const int owner = (thread + i) % pool_.size();
    int first, last, begin, end;
    range(stage.n_units, owner, &first, &last);
    const int all = last - first;
    if (!take(counter(number, owner), all, all, &begin, &end)) continue;
    for (int unit = first; unit < last; ++unit)
      merge_head(op, deal(stage.index), unit / op.n_heads, unit % op.n_heads);
    n_done += all;
  }
  return n_done;
}

void Forward::merge_rows(const Instruction& op, const Deal& deal, int first, int last) {
  for (int row = first; row < last; ++row) {
    for (int h = 0; !merges_by_head(deal) && h < op.n_heads; ++h) merge_head(op, deal, row, h);
    leave_forms(op, row);
  }
}

void Forward::merge_head(const Instruction& op, const Deal& deal, int row, int head) {
  const Parts& parts = deal.parts(row);
  if (parts.n > 0)
    kernels_.merge(op.shape, partial(deal, row, head, op.n_heads), parts.n,
                   rows(op.out).row(row) + head * kv_.head_dim);
}

}  // namespace unspool
