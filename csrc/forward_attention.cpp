// Attention of a forward pass: how it is dealt out to the threads. The arithmetic is in kernels/attention.h.
#include <algorithm>

#include "forward.h"

namespace unspool {

// Query heads of one kv head, at most kMaxQueries at a time.
static int head_chunks(const Instruction& op) {
  const int group = op.n_heads / op.n_kv_heads;
  return (group + kMaxQueries - 1) / kMaxQueries;
}

int Forward::whole_items(const Instruction& op) const {
  return (int)blocks_.size() * op.n_kv_heads * head_chunks(op);
}

bool Forward::splits(const Instruction& op) const {
  return max_segments_ > 1 && whole_items(op) < 4 * pool_.size();
}

void Forward::attention(const Instruction& op, size_t index, int thread) {
  int first, last;
  range(plan_->n_rows, thread, &first, &last);
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
  const bool split = splits(op);
  const int max_segments = split ? max_segments_ : 0;
  meet(thread);
  // First the thread's own items, whose K and V it has fetched, then what is left of the others'.
  for (int i = 0; i < pool_.size(); ++i) {
    const int owner = (thread + i) % pool_.size();
    int begin, end;
    range(items(op), owner, &begin, &end);
    std::atomic<int>& next = counter(index, owner);
    for (int item; (item = begin + next.fetch_add(1, std::memory_order_relaxed)) < end;)
      attend_item(op, item, max_segments);
  }
  meet(thread);
  const Rows out = rows(op.out);
  const size_t part = partial_floats(kv_.head_padded);
  for (int row = first; row < last; ++row) {
    for (int h = 0; split && h < op.n_heads; ++h)
      kernels_.merge(op.shape, partial_.as<float>() + ((size_t)row * op.n_heads + h) * max_segments_ * part,
                     part, positions_[row] / kSegment + 1, out.row(row) + h * kv_.head_dim);
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
  constexpr int kLines = 24;
  KvAhead& ahead = kv_ahead_[thread];
  for (int line = 0; line < kLines; ++line, ahead.at += 64) {
    if (ahead.at >= ahead.to && !next_kv_span(ahead)) return;
    __builtin_prefetch(ahead.at, 0, 2);
  }
}

// The next page's K or V; false when there is none or enough was asked for.
bool Forward::next_kv_span(KvAhead& ahead) {
  const Instruction& op = network_.instructions[ahead.index];
  const int segments = splits(op) ? max_segments_ : 1;
  while (ahead.token >= ahead.end) {
    if (ahead.item >= ahead.last || ahead.left == 0) return false;
    const Block& block = blocks_[ahead.item / segments / head_chunks(op) / op.n_kv_heads];
    const int newest = block.position + block.n_rows;
    const int segment = ahead.item % segments;
    ahead.token = segments > 1 ? segment * kSegment : 0;
    ahead.end = segments > 1 ? std::min(ahead.token + kSegment, newest) : newest;
    if (op.shape.window > 0) ahead.token = std::max(ahead.token, block.position - op.shape.window + 1);
    ahead.token = ahead.token / kv_.page_size * kv_.page_size;
    ++ahead.item;
  }
  const int item = (ahead.item - 1) / segments;
  const Block& block = blocks_[item / head_chunks(op) / op.n_kv_heads];
  const size_t page = block.pages[ahead.token / kv_.page_size];
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

void Forward::attend_item(const Instruction& op, int item, int max_segments) {
  const int chunks = head_chunks(op), group = op.n_heads / op.n_kv_heads;
  const int segment = max_segments ? item % max_segments : 0;
  if (max_segments) item /= max_segments;
  const int chunk = item % chunks, kv_head = item / chunks % op.n_kv_heads;
  const Block& block = blocks_[item / chunks / op.n_kv_heads];
  const int newest = block.position + block.n_rows - 1;
  const int first_head = chunk * kMaxQueries, n_heads = std::min(group - first_head, kMaxQueries);

  const Rows q = rows(op.x), out = rows(op.out);
  Query queries[kMaxQueries];
  int n = 0;
  for (int i = 0; i < block.n_rows; ++i)
    for (int h = 0; h < n_heads; ++h) {
      const size_t at = (size_t)(kv_head * group + first_head + h) * kv_.head_dim;
      queries[n++] = {q.row(block.row + i) + at, out.row(block.row + i) + at, block.position + i};
    }
  const uint16_t *k = kv_.head(op.layer, 0, kv_head), *v = kv_.head(op.layer, 1, kv_head);
  if (!max_segments)
    return kernels_.attend(op.shape, k, v, block.pages, queries, n, 0, newest / kSegment + 1, nullptr, 0);
  if (segment > newest / kSegment) return;
  // Partials are [row][head][segment]. Rows of a block are apart by n_heads heads, so each row goes alone
  // when a block has several.
  const size_t part = partial_floats(kv_.head_padded);
  for (int i = 0; i < block.n_rows; ++i) {
    const size_t head = (size_t)(block.row + i) * op.n_heads + kv_head * group + first_head;
    kernels_.attend(op.shape, k, v, block.pages, queries + i * n_heads, n_heads, segment, segment + 1,
                    partial_.as<float>() + (head * max_segments + segment) * part, max_segments * part);
  }
}

}  // namespace unspool
