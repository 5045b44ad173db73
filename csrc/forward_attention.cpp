// Attention of a forward pass: how it is dealt out to the threads. The arithmetic is in kernels/attention.h.
#include <math.h>

#include <algorithm>

#include "forward.h"

namespace unspool {

// Query heads of one kv head, at most kMaxQueries at a time.
static int head_chunks(const Instruction& op) {
  const int group = op.n_heads / op.n_kv_heads;
  return (group + kMaxQueries - 1) / kMaxQueries;
}

int Forward::items(const Instruction& op) const {
  return (int)units_.size() * op.n_kv_heads * head_chunks(op);
}

void Forward::add_unit(int row, int n_rows, const int32_t* pages, int first, int last) {
  units_.push_back({(int)unit_rows_.size(), n_rows, pages, first, last, positions_[row + n_rows - 1]});
  for (int i = 0; i < n_rows; ++i) unit_rows_.push_back(row + i);
}

void Forward::make_partial(int row, int n_segments) {
  partial_at_[row] = n_partial_;
  partial_segments_[row] = n_segments;
  n_partial_ += n_segments;
}

// Which rows share a pass over which segments. A block of rows goes as a whole where there is enough to do
// for every thread besides; where it is too large a part of all, its segments are dealt out.
void Forward::deal(const Plan& p) {
  units_.clear();
  unit_rows_.clear();
  partial_at_.assign(p.n_rows, kNone);
  partial_segments_.assign(p.n_rows, 0);
  n_partial_ = 0;
  if (block_rows_ == 0) return;
  // A pass costs about as much as two rows' arithmetic where there is but one.
  double work = 0;  // of all, in rows times segments
  int n_kv_heads = 1;
  for (const auto& op : network_.instructions)
    if (op.kind == OpKind::kAttention) n_kv_heads = std::max(n_kv_heads, op.n_kv_heads);
  for (int row = 0; row < p.n_rows; ++row) work += positions_[row] / kSegment + 1;
  for (int s = 0; s < p.n_sequences; ++s) work += p.n_past[s] / kSegment + 1;
  const double most = pool_.size() == 1 ? INFINITY : work * n_kv_heads / (8 * pool_.size());
  for (int s = 0; s < p.n_sequences; ++s) deal_sequence(p, s, most);

  size_t floats = 0;
  for (const auto& op : network_.instructions)
    if (op.kind == OpKind::kAttention)
      floats = std::max(floats, (size_t)n_partial_ * op.n_heads * partial_floats(kv_.head_padded));
  if (floats * sizeof(float) > partial_.bytes()) partial_ = Memory(floats * sizeof(float));
}

// `most`: work of one unit and kv head.
void Forward::deal_sequence(const Plan& p, int sequence, double most) {
  const int32_t* pages = p.page_table + p.page_start[sequence];
  for (int row = p.seq_start[sequence]; row < p.seq_start[sequence + 1]; row += block_rows_) {
    const int n_rows = std::min(block_rows_, p.seq_start[sequence + 1] - row);
    const int n_segments = positions_[row + n_rows - 1] / kSegment + 1;
    const double work = (double)(n_rows + 1) * n_segments;
    const int n_units = work <= 2 * most ? 1 : (int)std::min<double>(n_segments, ceil(work / most));
    for (int i = 0; n_units > 1 && i < n_rows; ++i) make_partial(row + i, n_segments);
    for (int i = 0; i < n_units; ++i)
      add_unit(row, n_rows, pages, n_segments * i / n_units, n_segments * (i + 1) / n_units);
  }
}

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

// First the thread's own items, whose K and V it has fetched, then what is left of the others'.
int Forward::attend(const Stage& stage, size_t number, int thread) {
  const Instruction& op = network_.instructions[stage.index];
  float* scratch = scratch_.as<float>() + attention_scratch(kv_.head_padded) * thread;
  int n_done = 0;
  for (int i = 0; i < pool_.size(); ++i) {
    const int owner = (thread + i) % pool_.size();
    int begin, end;
    range(stage.n_units, owner, &begin, &end);
    std::atomic<int>& next = counter(number, owner);
    for (int item; (item = begin + next.fetch_add(1, std::memory_order_relaxed)) < end; ++n_done)
      attend_item(op, item, scratch);
  }
  return n_done;
}

void Forward::merge_rows(const Instruction& op, int first, int last) {
  const Rows out = rows(op.out);
  for (int row = first; row < last; ++row) {
    for (int h = 0; partial_at_[row] != kNone && h < op.n_heads; ++h)
      kernels_.merge(op.shape, partial(op, row, h), positions_[row], out.row(row) + h * kv_.head_dim);
    if (op.quantize) kernels_.quantize(out.row(row), row, acts(op.out, op));
  }
}

// Turns to what the thread will read in the attention at `index`; false when that is all asked for.
bool Forward::look_at_kv(size_t index, int thread) {
  constexpr size_t kMost = 256 * 1024;  // a part of the second-level cache
  if (index >= network_.instructions.size()) return false;
  KvAhead& ahead = kv_ahead_[thread];
  if (ahead.index != index) {
    ahead = {};
    ahead.index = index;
    ahead.left = kMost;
    range(items(network_.instructions[index]), thread, &ahead.item, &ahead.last);
  }
  return ahead.item < ahead.last || ahead.token < ahead.end || ahead.at < ahead.to;
}

void Forward::bite_kv(int thread) {
  constexpr int kLines = 48;
  KvAhead& ahead = kv_ahead_[thread];
  for (int line = 0; line < kLines; ++line, ahead.at += 64) {
    if (ahead.at >= ahead.to && !next_kv_span(ahead)) return;
    __builtin_prefetch(ahead.at, 0, 2);
  }
}

// The next page's K or V; false when there is none or enough was asked for.
bool Forward::next_kv_span(KvAhead& ahead) {
  const Instruction& op = network_.instructions[ahead.index];
  while (ahead.token >= ahead.end) {
    if (ahead.item >= ahead.last || ahead.left == 0) return false;
    const Unit& unit = units_[ahead.item++ / head_chunks(op) / op.n_kv_heads];
    const int oldest = positions_[unit_rows_[unit.rows]];
    ahead.token = std::max(unit.first, first_segment(op.shape, oldest)) * kSegment;
    if (op.shape.window > 0) ahead.token = std::max(ahead.token, oldest - op.shape.window + 1);
    ahead.token = ahead.token / kv_.page_size * kv_.page_size;
    ahead.end = std::min(unit.last * kSegment, unit.newest + 1);
  }
  const int item = ahead.item - 1;
  const Unit& unit = units_[item / head_chunks(op) / op.n_kv_heads];
  const size_t page = unit.pages[ahead.token / kv_.page_size];
  const uint16_t* values =
      kv_.head(op.layer, ahead.side, item / head_chunks(op) % op.n_kv_heads) + page * kv_.page_values;
  const int tokens = ahead.side == 0 ? kv_.page_size : std::min(kv_.page_size, ahead.end - ahead.token);
  const size_t bytes = std::min(ahead.left, sizeof(uint16_t) * tokens * kv_.head_padded);
  ahead.at = reinterpret_cast<const uint8_t*>(values);
  ahead.to = ahead.at + bytes;
  ahead.left -= bytes;
  if (ahead.side == 1) ahead.token += kv_.page_size;
  ahead.side ^= 1;
  return bytes > 0;
}

float* Forward::partial(const Instruction& op, int row, int head) const {
  const size_t slot = (size_t)partial_at_[row] * op.n_heads + (size_t)head * partial_segments_[row];
  return partial_.as<float>() + slot * partial_floats(kv_.head_padded);
}

void Forward::attend_item(const Instruction& op, int item, float* scratch) {
  const int chunks = head_chunks(op), group = op.n_heads / op.n_kv_heads;
  const int chunk = item % chunks, kv_head = item / chunks % op.n_kv_heads;
  const Unit& unit = units_[item / chunks / op.n_kv_heads];
  const int first_head = kv_head * group + chunk * kMaxQueries;
  const int n_heads = std::min(group - chunk * kMaxQueries, kMaxQueries);
  const Rows q = rows(op.x), out = rows(op.out);
  Query queries[kMaxQueries];
  int n = 0;
  for (int i = 0; i < unit.n_rows; ++i) {
    const int row = unit_rows_[unit.rows + i];
    for (int h = first_head; h < first_head + n_heads; ++h) {
      const size_t at = (size_t)h * kv_.head_dim;
      float* part = partial_at_[row] == kNone ? nullptr : partial(op, row, h);
      queries[n++] = {q.row(row) + at, out.row(row) + at, part, positions_[row]};
    }
  }
  kernels_.attend(op.shape, kv_.head(op.layer, 0, kv_head), kv_.head(op.layer, 1, kv_head), unit.pages,
                  queries, n, unit.first, unit.last, scratch);
}

}  // namespace unspool
