#include "forward.h"

#include <math.h>
#include <string.h>

#include <algorithm>
#include <chrono>

namespace unspool {

KvStore::KvStore(int n_pages, int page_size, int n_layers, int n_kv_heads, int head_dim)
    : n_pages(n_pages), page_size(page_size), n_layers(n_layers), n_kv_heads(n_kv_heads), head_dim(head_dim) {
  head_padded = (head_dim + 15) / 16 * 16;
  head_values = (size_t)head_padded * page_size;
  page_values = head_values * 2 * n_layers * n_kv_heads;
  memory = Memory(page_values * n_pages * sizeof(uint16_t));
}

Forward::Forward(const Network& network, const Kernels& kernels, Pool& pool, KvStore& kv)
    : network_(network),
      kernels_(kernels),
      pool_(pool),
      kv_(kv),
      check_(network.vocab_size, network.context_length, kv.n_pages, kv.page_size) {
  data_.resize(network.registers.size());
  quantized_.resize(network.registers.size());
  cos_.resize(network.ropes.size());
  sin_.resize(network.ropes.size());
  next_.reset(new std::atomic<int>[network.instructions.size() * pool.size()]);
  ahead_.reset(new Ahead[pool.size()]);
  kv_ahead_.reset(new KvAhead[pool.size()]);
  pad_logits_ = network.vocab_size % kTile != 0;
  for (const auto& op : network.instructions)
    if (op.kind == OpKind::kAttention) {
      const int rows = std::max(1, kMaxQueries / (op.n_heads / op.n_kv_heads));
      block_rows_ = block_rows_ ? std::min(block_rows_, rows) : rows;
    }
  scratch_ = Memory(attention_scratch(kv.head_padded) * sizeof(float) * pool.size());
}

// Buffers only grow, and only here, before any thread works: where memory runs out, all is as it was.
void Forward::prepare(const Plan& p) {
  if (p.n_rows > capacity_) {
    const size_t n = (size_t)p.n_rows;
    for (size_t i = 0; i < data_.size(); ++i) {
      const Register& reg = network_.registers[i];
      data_[i] = Memory(n * reg.stride * sizeof(float));
      if (!reg.quantized) continue;
      quantized_[i] = Memory(Acts::bytes(n, reg.stride));
    }
    for (size_t i = 0; i < cos_.size(); ++i) {
      cos_[i].resize(n * network_.ropes[i].inv_freq.size());
      sin_[i].resize(cos_[i].size());
    }
    capacity_ = p.n_rows;  // last: where memory runs out, the next plan finds the old capacity
  }
  if (pad_logits_) {
    const size_t bytes = (size_t)p.n_wanted * rows(kLogits).stride * sizeof(float);
    if (bytes > padded_logits_.bytes()) padded_logits_ = Memory(bytes);
  }

  positions_.resize(p.n_rows);
  for (int s = 0; s < p.n_sequences; ++s)
    for (int row = p.seq_start[s]; row < p.seq_start[s + 1]; ++row)
      positions_[row] = p.n_past[s] + row - p.seq_start[s];
  deal(p);
  const size_t n_counters = network_.instructions.size() * pool_.size();
  for (size_t i = 0; i < n_counters; ++i) next_[i].store(0, std::memory_order_relaxed);
}

Rows Forward::rows(int reg) const {
  if (reg != kLogits) return {data_[reg].as<float>(), network_.registers[reg].stride};
  const size_t v = (size_t)network_.vocab_size;
  if (pad_logits_) return {padded_logits_.as<float>(), (v + 15) / 16 * 16};
  return {logits_, v};
}

Acts Forward::acts(int reg, const Instruction& op) const {
  const Register& r = network_.registers[reg];
  return {quantized_[reg].as<void>(), (int)r.stride, row_count(op), r.whole_groups};
}

void Forward::range(int n, int thread, int* first, int* last) const {
  *first = (int)((int64_t)n * thread / pool_.size());
  *last = (int)((int64_t)n * (thread + 1) / pool_.size());
}

void Forward::run(const Plan& plan, float* logits) {
  check_.check(plan);
  if (plan.n_rows == 0) return;
  plan_ = &plan;
  logits_ = logits;
  prepare(plan);
  pool_.run([](void* self, int thread) { static_cast<Forward*>(self)->walk(thread); }, this);
  if (pad_logits_)
    for (int w = 0; w < plan.n_wanted; ++w)
      memcpy(logits + (size_t)w * network_.vocab_size, rows(kLogits).row(w),
             network_.vocab_size * sizeof(float));
}

void Forward::walk(int thread) {
  int first, last;
  range(plan_->n_rows, thread, &first, &last);
  kv_ahead_[thread].index = network_.instructions.size();
  fill_rope_tables(first, last);
  for (size_t i = 0; i < network_.instructions.size(); ++i) {
    note(i, thread, &Times::ready);
    if (network_.instructions[i].barrier_before) meet(thread);
    note(i, thread, &Times::began);
    execute(i, thread);
    note(i, thread, &Times::ended);
  }
}

void Forward::note_times(bool on) {
  times_.assign(on ? network_.instructions.size() * pool_.size() : 0, Times());
}

void Forward::note(size_t index, int thread, int64_t Times::* moment) {
  if (times_.empty()) return;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  times_[thread * network_.instructions.size() + index].*moment =
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void Forward::execute(size_t index, int thread) {
  const Instruction& op = network_.instructions[index];
  int first, last;
  range(row_count(op), thread, &first, &last);
  switch (op.kind) {
    case OpKind::kLinear:
      return linear(op, index, thread);
    case OpKind::kAttention:
      return attention(op, index, thread);
    case OpKind::kSelect:
      return select(op, first, last);
    default:
      for (int row = first; row < last; ++row) row_op(op, row);
  }
}

// Every thread walks a range of tiles of its own, in order, so that its prefetches run ahead into its own
// work, and then helps the others with what is left of theirs.
void Forward::linear(const Instruction& op, size_t index, int thread) {
  if (row_count(op) == 0) return;
  const int n_threads = pool_.size();
  // Few rows leave memory idle at times: K and V of the next attention come in between tiles.
  const bool fetch = row_count(op) <= Acts::kBlock && look_at_kv(network_.next_attention[index], thread);
  const int tiles_at_once = op.gated == kNone ? 2 : 1;  // or one of gate and one of up
  const int stride = fetch ? tiles_at_once * Acts::kBlock / row_count(op) : op.n_tiles;
  for (int i = 0; i < n_threads; ++i) {
    const int owner = (thread + i) % n_threads;
    int first, last;
    range(op.n_tiles, owner, &first, &last);
    // Many rows pass over each part from far, so it had better not be small.
    const int least = row_count(op) > Acts::kBlock ? std::max(1, (last - first) / 8) : 1;
    int begin, end;
    while (take(counter(index, owner), last - first, least, &begin, &end))
      for (int t = begin; t < end; t += stride) {
        tiles(op, first + t, first + std::min(t + stride, end));
        if (fetch) bite_kv(thread);
      }
  }
  look_ahead(network_.next_linear[index], thread);
}

// Takes a part of what is left of n units of work, `least` or more: large parts first, so that all threads
// end together.
bool Forward::take(std::atomic<int>& next, int n, int least, int* begin, int* end) {
  *begin = next.load(std::memory_order_relaxed);
  do {
    if (*begin >= n) return false;
    *end = std::min(n, *begin + std::max(least, (n - *begin) / 4));
  } while (!next.compare_exchange_weak(*begin, *end, std::memory_order_relaxed));
  return true;
}

// Tiles [begin, end) of the instruction, counted over all its parts, or of both where they are gated.
void Forward::tiles(const Instruction& op, int begin, int end) {
  if (op.gated != kNone) {
    for (const Part& part : op.parts) product(op, part, begin, end);
    return gate_columns(op, begin, end);
  }
  int offset = 0;  // tiles of the parts before this one
  for (const Part& part : op.parts) {
    const int n_tiles = network_.matrices[part.matrix].n_tiles;
    const int first = std::max(begin - offset, 0), last = std::min(end - offset, n_tiles);
    offset += n_tiles;
    if (first < last) product(op, part, first, last);
  }
}

void Forward::product(const Instruction& op, const Part& part, int first, int last) {
  const Packed& w = network_.matrices[part.matrix];
  const float* bias = part.bias == kNone ? nullptr : network_.vectors[part.bias].data();
  if (w.quantized())
    kernels_.gemm_quant(w, first, last, acts(op.x, op), rows(part.out), bias, part.accumulate);
  else
    kernels_.gemm_float(w, first, last, rows(op.x), 0, row_count(op), rows(part.out), bias, part.accumulate);
}

void Forward::gate_columns(const Instruction& op, int begin, int end) {
  const Rows gate = rows(op.parts[0].out), up = rows(op.parts[1].out), out = rows(op.gated);
  const int first = begin * kTile, n = std::min(end * kTile, network_.registers[op.gated].width) - first;
  for (int row = 0; row < row_count(op); ++row)
    kernels_.gated(gate.row(row) + first, up.row(row) + first, out.row(row) + first, n, op.gate);
}

// Notes what this thread's range of a later linear instruction holds, to be fetched while it waits: so
// memory is busy while rows are normed and attended to.
void Forward::look_ahead(size_t index, int thread) {
  const Instruction& op = network_.instructions[index];
  Ahead& ahead = ahead_[thread];
  ahead.clear();
  int begin, end, offset = 0;
  range(op.n_tiles, thread, &begin, &end);
  for (const Part& part : op.parts) {
    const Packed& w = network_.matrices[part.matrix];
    const int first = std::max(begin - offset, 0), last = std::min(end - offset, w.n_tiles);
    if (op.gated == kNone) offset += w.n_tiles;
    if (first < last) ahead.add(w.tile(first), (size_t)(last - first) * w.tile_bytes);
  }
}

void Forward::meet(int thread) {
  Ahead& ahead = ahead_[thread];
  pool_.barrier([&ahead] { ahead.bite(); });
}

void Forward::select(const Instruction& op, int first, int last) {
  const Rows from = rows(op.x), to = rows(op.out);
  for (int w = first; w < last; ++w) {
    memcpy(to.row(w), from.row(plan_->logits_rows[w]), network_.registers[op.x].width * sizeof(float));
    if (op.quantize) kernels_.quantize(to.row(w), w, acts(op.out, op));
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
  if (op.quantize) kernels_.quantize(out, row, acts(op.out, op));
}

}  // namespace unspool
