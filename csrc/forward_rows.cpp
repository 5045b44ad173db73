// Rows of a forward pass on their way through instructions. The arithmetic of those that work row by row is
// in kernels/rowwise.h.
#include <math.h>
#include <string.h>

#include <atomic>

#include "forward.h"

namespace unspool {

// Every thread takes rows of its own to begin with, and then those that others have not begun.
int Forward::row_work(const Stage& stage, size_t number, int thread) {
  int n_done = 0;
  for (int i = 0; i < pool_.size(); ++i) {
    const int owner = (thread + i) % pool_.size();
    int begin, end;
    range(stage.n_units, owner, &begin, &end);
    std::atomic<int>& next = counter(number, owner);
    while (begin + next.load(std::memory_order_relaxed) < end) {
      const int unit = begin + next.fetch_add(1, std::memory_order_relaxed);
      if (unit >= end) break;
      int first, last;
      rows_of(stage, unit, &first, &last);
      if (number == 0) fill_rope_tables(first, last);
      const bool in_cache = stage.keeps_weights() && n_done > 0;
      for (const RowWork& work : stage.work) {
        work_on_rows(work, first, last, thread, in_cache);
        laps_[thread].ended(work.index);
      }
      ++n_done;
    }
  }
  return n_done;
}

void Forward::work_on_rows(const RowWork& work, int first, int last, int thread, bool in_cache) {
  const Instruction& op = network_.instructions[work.index];
  if (work.part == RowPart::kStore) return store_rows(op, first, last);
  if (work.part == RowPart::kMerge) return merge_rows(op, deal(work.index), first, last);
  if (op.kind == OpKind::kLinear) return linear_rows(op, {first, last, thread, /*all_tiles=*/true, in_cache});
  if (op.kind == OpKind::kSelect) return select(op, first, last);
  for (int row = first; row < last; ++row) row_op(op, row);
}

void Forward::select(const Instruction& op, int first, int last) {
  const Rows from = rows(op.x), to = rows(op.out);
  for (int w = first; w < last; ++w) {
    memcpy(to.row(w), from.row(plan_->logits_rows[w]), network_.registers[op.x].width * sizeof(float));
    leave_forms(op, w);
  }
}

void Forward::fill_rope_tables(int first, int last) {
  for (size_t t = 0; t < network_.ropes.size(); ++t) {
    const RopeTable& table = network_.ropes[t];
    const size_t n = table.inv_freq.size();
    for (int r = first; r < last; ++r)
      for (size_t i = 0; i < n; ++i) {
        // In double: a float has no digits left for the angle at long positions.
        const double angle = positions_[r] * table.inv_freq[i];
        cos_[t][r * n + i] = (float)cos(angle) * table.magnitude;
        sin_[t][r * n + i] = (float)sin(angle) * table.magnitude;
      }
  }
}

// The point (a, b) by the angle of cosine c and sine s.
static inline void turn(float& a, float& b, float c, float s) {
  const float x = a, y = b;
  a = x * c - y * s;
  b = x * s + y * c;
}

void Forward::rope_row(const Instruction& op, int row) {
  const int half = (int)network_.ropes[op.table].inv_freq.size();
  const float *c = cos_[op.table].data() + (size_t)row * half,
              *s = sin_[op.table].data() + (size_t)row * half;
  float* x = rows(op.x).row(row);
  const int width = network_.registers[op.x].width;
  if (op.interleaved) {
    for (int head = 0; head < width; head += op.group)
      for (int i = 0; i < half; ++i) turn(x[head + 2 * i], x[head + 2 * i + 1], c[i], s[i]);
    return;
  }
  for (int head = 0; head < width; head += op.group) {
    float* __restrict low = x + head, * __restrict high = x + head + half;  // so that four turn at once
    for (int i = 0; i < half; ++i) turn(low[i], high[i], c[i], s[i]);
  }
}

void Forward::row_op(const Instruction& op, int row) {
  if (op.kind == OpKind::kRope) return rope_row(op, row);
  float* out = rows(op.out).row(row);
  const int width = op.out == kLogits ? network_.vocab_size : network_.registers[op.out].width;
  switch (op.kind) {
    case OpKind::kEmbed:
      unpack_row(network_.matrices[op.weight], plan_->token_ids[row], out);
      if (op.factor != 1.0f) kernels_.scale(out, out, width, op.factor);
      break;
    case OpKind::kNorm:
      kernels_.rms_norm(rows(op.x).row(row), network_.vectors[op.weight].data(), out, width, op.group,
                        op.factor);
      break;
    case OpKind::kGated:
      if (!op.gated_before) kernels_.gated(rows(op.x).row(row), rows(op.y).row(row), out, width, op.gate);
      break;
    case OpKind::kAdd:
      kernels_.add(rows(op.x).row(row), rows(op.y).row(row), out, width);
      break;
    case OpKind::kScale:
      kernels_.scale(rows(op.x).row(row), out, width, op.factor);
      break;
    case OpKind::kSoftCap:
      kernels_.softcap(rows(op.x).row(row), out, width, op.factor);
      break;
    default:
      break;
  }
  leave_forms(op, row);
}

// Beside the row that was just written, the forms of it that products read.
void Forward::leave_forms(const Instruction& op, int row) {
  if (!op.leaves_forms) return;
  const Register& reg = network_.registers[op.out];
  const float* written = rows(op.out).row(row);
  if (reg.quantized) kernels_.quantize(written, row, acts(op.out, op));
  if (reg.halved) kernels_.halve(written, halves(op.out).row(row), (int)reg.stride);
}

}  // namespace unspool
