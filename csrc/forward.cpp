#include "forward.h"

#include <math.h>
#include <string.h>

#include <algorithm>
#include <stdexcept>

namespace unspool {

KvStore::KvStore(int n_pages, int page_size, int n_layers, int n_kv_heads, int head_dim)
    : n_pages(n_pages), page_size(page_size), n_layers(n_layers), n_kv_heads(n_kv_heads), head_dim(head_dim) {
  head_padded = (head_dim + 15) / 16 * 16;
  head_values = (size_t)head_padded * page_size;
  page_values = head_values * 2 * n_layers * n_kv_heads;
  memory = Memory(page_values * n_pages * sizeof(uint16_t));
}

Forward::Forward(const Network& network, const Kernels& kernels, Pool& pool, KvStore& kv)
    : network_(network), kernels_(kernels), pool_(pool), kv_(kv) {
  data_.resize(network.registers.size());
  quantized_.resize(network.registers.size());
  acts_.resize(network.registers.size());
  cos_.resize(network.ropes.size());
  sin_.resize(network.ropes.size());
  next_.reset(new std::atomic<int>[network.instructions.size() * pool.size()]);
  ahead_.reset(new Ahead[pool.size()]);
  pad_logits_ = network.vocab_size % kTile != 0;
  for (const auto& op : network.instructions)
    if (op.kind == OpKind::kAttention) block_rows_ = std::max(1, kMaxQueries / (op.n_heads / op.n_kv_heads));
}

namespace {

void require(bool good, const char* what) {
  if (!good) throw std::invalid_argument(what);
}

void check_starts(const int32_t* starts, int n, int end, const char* what) {
  require(starts[0] == 0 && starts[n] == end, what);
  for (int i = 0; i < n; ++i) require(starts[i] <= starts[i + 1], what);
}

}  // namespace

// A plan comes from our own engine, so a bad one is our mistake; but it must never reach memory.
void Forward::check(const Batch& b) {
  check_starts(b.seq_start, b.n_sequences, b.n_rows, "plan: seq_start");
  check_starts(b.page_start, b.n_sequences, b.n_table, "plan: page_start");
  for (int i = 0; i < b.n_table; ++i)
    require(b.page_table[i] >= 0 && b.page_table[i] < kv_.n_pages, "plan: page id out of range");
  written_.resize(kv_.n_pages, 0);
  ++epoch_;
  for (int s = 0; s < b.n_sequences; ++s) {
    const int64_t n = b.seq_start[s + 1] - b.seq_start[s], past = b.n_past[s];
    const int64_t covered = (int64_t)(b.page_start[s + 1] - b.page_start[s]) * kv_.page_size;
    require(past >= 0, "plan: n_past is negative");
    require(past + n <= network_.context_length, "plan: a sequence is longer than the context");
    require(past + n <= covered, "plan: a page table does not cover its sequence");
    for (int64_t i = past / kv_.page_size; n > 0 && i <= (past + n - 1) / kv_.page_size; ++i) {
      int64_t& mark = written_[b.page_table[b.page_start[s] + i]];
      require(mark != epoch_, "plan: a page is written twice");
      mark = epoch_;
    }
  }
  for (int r = 0; r < b.n_rows; ++r)
    require(b.token_ids[r] >= 0 && b.token_ids[r] < network_.vocab_size, "plan: token id out of range");
  for (int w = 0; w < b.n_wanted; ++w) {
    require(b.logits_rows[w] >= 0 && b.logits_rows[w] < b.n_rows, "plan: logits row out of range");
    require(w == 0 || b.logits_rows[w] > b.logits_rows[w - 1], "plan: logits rows must ascend");
  }
}

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

// Buffers only grow, and only here, before any thread works: where memory runs out, all is as it was.
void Forward::prepare(const Batch& b) {
  if (b.n_rows > capacity_) {
    const size_t n = (size_t)b.n_rows;
    for (size_t i = 0; i < data_.size(); ++i) {
      const Register& reg = network_.registers[i];
      data_[i] = Memory(n * reg.stride * sizeof(float));
      if (!reg.quantized) continue;
      const size_t groups = reg.stride / kGroup;
      // Per row: quants, then scale, sum, wsum16 (two a group) and wsum32 (one a group).
      quantized_[i] = Memory(n * (reg.stride + groups * 7 * 4));
      Acts& a = acts_[i];
      a.k_padded = (int)reg.stride;
      a.q = quantized_[i].as<int8_t>();
      a.scale = reinterpret_cast<float*>(a.q + n * reg.stride);
      a.wsum16 = a.scale + 2 * n * groups;
      a.wsum32 = a.wsum16 + 2 * n * groups;
      a.sum = reinterpret_cast<int32_t*>(a.wsum32 + n * groups);
    }
    for (size_t i = 0; i < cos_.size(); ++i) {
      cos_[i].resize(n * network_.ropes[i].inv_freq.size());
      sin_[i].resize(cos_[i].size());
    }
    capacity_ = b.n_rows;  // last: where memory runs out, the next plan finds the old capacity
  }
  if (pad_logits_) {
    const size_t bytes = (size_t)b.n_wanted * rows(kLogits).stride * sizeof(float);
    if (bytes > padded_logits_.bytes()) padded_logits_ = Memory(bytes);
  }

  positions_.resize(b.n_rows);
  blocks_.clear();
  max_segments_ = 1;
  for (int s = 0; s < b.n_sequences; ++s) {
    const int first = b.seq_start[s], n = b.seq_start[s + 1] - first;
    for (int i = 0; i < n; ++i) positions_[first + i] = b.n_past[s] + i;
    for (int i = 0; i < n; i += block_rows_)
      blocks_.push_back(
          {first + i, std::min(block_rows_, n - i), b.n_past[s] + i, b.page_table + b.page_start[s]});
    max_segments_ = std::max(max_segments_, (b.n_past[s] + n - 1) / kSegment + 1);
  }
  size_t floats = 0;  // of partial results, by the instruction that leaves most
  for (const auto& op : network_.instructions)
    if (op.kind == OpKind::kAttention && splits(op))
      floats =
          std::max(floats, (size_t)b.n_rows * op.n_heads * max_segments_ * partial_floats(kv_.head_padded));
  if (floats * sizeof(float) > partial_.bytes()) partial_ = Memory(floats * sizeof(float));
  const size_t n_counters = network_.instructions.size() * pool_.size();
  for (size_t i = 0; i < n_counters; ++i) next_[i].store(0, std::memory_order_relaxed);
}

Rows Forward::rows(int reg) const {
  if (reg != kLogits) return {data_[reg].as<float>(), network_.registers[reg].stride};
  const size_t v = (size_t)network_.vocab_size;
  if (pad_logits_) return {padded_logits_.as<float>(), (v + 15) / 16 * 16};
  return {logits_, v};
}

void Forward::range(int n, int thread, int* first, int* last) const {
  *first = (int)((int64_t)n * thread / pool_.size());
  *last = (int)((int64_t)n * (thread + 1) / pool_.size());
}

void Forward::run(const Batch& batch, float* logits) {
  check(batch);
  if (batch.n_rows == 0) return;
  batch_ = &batch;
  logits_ = logits;
  prepare(batch);
  pool_.run([](void* self, int thread) { static_cast<Forward*>(self)->walk(thread); }, this);
  if (pad_logits_)
    for (int w = 0; w < batch.n_wanted; ++w)
      memcpy(logits + (size_t)w * network_.vocab_size, rows(kLogits).row(w),
             network_.vocab_size * sizeof(float));
}

void Forward::walk(int thread) {
  int first, last;
  range(batch_->n_rows, thread, &first, &last);
  fill_rope_tables(first, last);
  for (size_t i = 0; i < network_.instructions.size(); ++i) {
    if (network_.instructions[i].barrier_before) meet(thread);
    execute(i, thread);
  }
}

void Forward::execute(size_t index, int thread) {
  const Instruction& op = network_.instructions[index];
  int first, last;
  range(row_count(op), thread, &first, &last);
  switch (op.kind) {
    case OpKind::kLinear:
      return linear(op, index, thread);
    case OpKind::kAttention:
      return attention(op, counter(index, 0), thread);
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
  for (int i = 0; i < n_threads; ++i) {
    const int owner = (thread + i) % n_threads;
    int first, last;
    range(op.n_tiles, owner, &first, &last);
    const int chunk = std::max(1, (last - first) / 8);
    std::atomic<int>& next = counter(index, owner);
    for (int begin; (begin = first + next.fetch_add(chunk, std::memory_order_relaxed)) < last;)
      tiles(op, begin, std::min(begin + chunk, last));
  }
  look_ahead(network_.next_linear[index], thread);
}

// Tiles [begin, end) of the instruction, counted over all its parts.
void Forward::tiles(const Instruction& op, int begin, int end) {
  int offset = 0;  // tiles of the parts before this one
  for (const Part& part : op.parts) {
    const Packed& w = network_.matrices[part.matrix].packed;
    const int first = std::max(begin - offset, 0), last = std::min(end - offset, w.n_tiles);
    offset += w.n_tiles;
    if (first >= last) continue;
    const float* bias = part.bias == kNone ? nullptr : network_.vectors[part.bias].data();
    if (w.quantized())
      kernels_.gemm_quant(w, first, last, acts(op.x), 0, row_count(op), rows(part.out), bias,
                          part.accumulate);
    else
      kernels_.gemm_float(w, first, last, rows(op.x), 0, row_count(op), rows(part.out), bias,
                          part.accumulate);
  }
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
    const Packed& w = network_.matrices[part.matrix].packed;
    const int first = std::max(begin - offset, 0), last = std::min(end - offset, w.n_tiles);
    offset += w.n_tiles;
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
    memcpy(to.row(w), from.row(batch_->logits_rows[w]), network_.registers[op.x].width * sizeof(float));
    if (op.quantize) kernels_.quantize(to.row(w), w, acts(op.out));
  }
}

void Forward::fill_rope_tables(int first, int last) {
  for (size_t t = 0; t < network_.ropes.size(); ++t) {
    const RopeTable& table = network_.ropes[t];
    const size_t n = table.inv_freq.size();
    for (int r = first; r < last; ++r)
      for (size_t i = 0; i < n; ++i) {
        const float angle = (float)positions_[r] * table.inv_freq[i];
        cos_[t][r * n + i] = cosf(angle) * table.magnitude;
        sin_[t][r * n + i] = sinf(angle) * table.magnitude;
      }
  }
}

void Forward::rope_row(const Instruction& op, int row) {
  const int half = (int)network_.ropes[op.table].inv_freq.size();
  const float *c = cos_[op.table].data() + (size_t)row * half,
              *s = sin_[op.table].data() + (size_t)row * half;
  float* x = rows(op.x).row(row);
  for (int head = 0; head < network_.registers[op.x].width; head += op.group) {
    float* h = x + head;
    const int step = op.interleaved ? 2 : 1, other = op.interleaved ? 1 : half;
    for (int i = 0; i < half; ++i) {
      const float a = h[i * step], b = h[i * step + other];
      h[i * step] = a * c[i] - b * s[i];
      h[i * step + other] = a * s[i] + b * c[i];
    }
  }
}

void Forward::row_op(const Instruction& op, int row) {
  if (op.kind == OpKind::kRope) return rope_row(op, row);
  float* out = rows(op.out).row(row);
  const int width = op.out == kLogits ? network_.vocab_size : network_.registers[op.out].width;
  switch (op.kind) {
    case OpKind::kEmbed:
      unpack_row(network_.matrices[op.weight].packed, batch_->token_ids[row], out);
      if (op.factor != 1.0f) kernels_.scale(out, out, width, op.factor);
      break;
    case OpKind::kNorm:
      kernels_.rms_norm(rows(op.x).row(row), network_.vectors[op.weight].data(), out, width, op.group,
                        op.factor);
      break;
    case OpKind::kGated:
      kernels_.gated(rows(op.x).row(row), rows(op.y).row(row), out, width, op.gate);
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
  if (op.quantize) kernels_.quantize(out, row, acts(op.out));
}

void Forward::attention(const Instruction& op, std::atomic<int>& next, int thread) {
  int first, last;
  range(batch_->n_rows, thread, &first, &last);
  const Rows k = rows(op.y), v = rows(op.z);
  size_t sequence = 0;
  for (int row = first; row < last; ++row) {
    while (batch_->seq_start[sequence + 1] <= row) ++sequence;
    const int position = positions_[row];
    const size_t page = batch_->page_table[batch_->page_start[sequence] + position / kv_.page_size];
    for (int h = 0; h < op.n_kv_heads; ++h)
      kernels_.store_kv(k.row(row) + h * kv_.head_dim, v.row(row) + h * kv_.head_dim,
                        kv_.head(op.layer, 0, h) + page * kv_.page_values,
                        kv_.head(op.layer, 1, h) + page * kv_.page_values, position % kv_.page_size,
                        op.shape);
  }
  const bool split = splits(op);
  const int max_segments = split ? max_segments_ : 0;
  const int items = whole_items(op) * (split ? max_segments_ : 1);
  meet(thread);
  for (int item; (item = next.fetch_add(1, std::memory_order_relaxed)) < items;)
    attend_item(op, item, max_segments);
  meet(thread);
  const Rows out = rows(op.out);
  const size_t part = partial_floats(kv_.head_padded);
  for (int row = first; row < last; ++row) {
    for (int h = 0; split && h < op.n_heads; ++h)
      kernels_.merge(op.shape, partial_.as<float>() + ((size_t)row * op.n_heads + h) * max_segments_ * part,
                     part, positions_[row] / kSegment + 1, out.row(row) + h * kv_.head_dim);
    if (op.quantize) kernels_.quantize(out.row(row), row, acts(op.out));
  }
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
