#include "forward.h"

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
  make_stages();
  next_.reset(new std::atomic<int>[stages_.size() * pool.size()]);
  done_.reset(new std::atomic<int>[stages_.size()]);
  ahead_.reset(new Ahead[pool.size()]);
  kv_ahead_.reset(new KvAhead[pool.size()]);
  pad_logits_ = network.vocab_size % kTile != 0;
  for (const auto& op : network.instructions) {
    size_t kind = 0;
    if (op.kind == OpKind::kAttention) {
      while (kind < deals_.size() && !deals_[kind].fits(op.shape.window, op.n_heads, op.n_kv_heads)) ++kind;
      if (kind == deals_.size()) deals_.emplace_back(op.shape.window, op.n_heads, op.n_kv_heads, pool.size());
    }
    deal_of_.push_back((int)kind);
  }
  scratch_ = Memory(attention_scratch(kv.head_padded) * sizeof(float) * pool.size());
  gemm_scratch_ = Memory(kGemmScratch * sizeof(float) * pool.size());
}

// Consecutive row-wise instructions are one stage: what a row needs of them is its own.
void Forward::make_stages() {
  bool open = false;  // the last stage takes more row-wise work
  for (size_t i = 0; i < network_.instructions.size(); ++i) {
    const Instruction& op = network_.instructions[i];
    if (op.kind == OpKind::kLinear) {
      stages_.push_back({Stage::kTiles, i, {}});
      open = false;
      continue;
    }
    if (!open || op.waits_before) stages_.push_back({Stage::kRows, i, {}});
    open = true;
    if (op.kind != OpKind::kAttention) {
      stages_.back().work.push_back({i, RowPart::kWhole});
      continue;
    }
    stages_.back().work.push_back({i, RowPart::kStore});
    stages_.push_back({Stage::kItems, i, {}});
    stages_.push_back({Stage::kHeads, i, {}});
    stages_.push_back({Stage::kRows, i, {{i, RowPart::kMerge}}});
  }
}

int Forward::units(const Stage& stage) const {
  const Instruction& op = network_.instructions[stage.index];
  if (stage.kind == Stage::kTiles) return row_count(op) == 0 ? 0 : op.n_tiles;
  if (stage.kind == Stage::kItems) return deal(stage.index).first(pool_.size());
  if (stage.kind == Stage::kHeads) return merges_by_head(deal(stage.index)) ? row_count(op) * op.n_heads : 0;
  return row_count(op);
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
  cascade_.find(p, kv_.page_size);
  for (Deal& deal : deals_) deal.make(p, cascade_, positions_.data());
  size_t floats = 0;
  for (size_t i = 0; i < network_.instructions.size(); ++i)
    if (network_.instructions[i].kind == OpKind::kAttention)
      floats = std::max(floats, (size_t)deal(i).n_slots() * network_.instructions[i].n_heads *
                                    partial_floats(kv_.head_padded));
  if (floats * sizeof(float) > partial_.bytes()) partial_ = Memory(floats * sizeof(float));
  int ended = progress_.value();
  for (Stage& stage : stages_) {
    stage.n_units = units(stage);
    stage.ended_before = ended;
    // Of those without units nobody tells that they ended. Unsigned, for the count goes round.
    ended = (int)((unsigned)ended + (stage.n_units > 0));
  }
  for (size_t i = 0; i < stages_.size() * pool_.size(); ++i) next_[i].store(0, std::memory_order_relaxed);
  for (size_t i = 0; i < stages_.size(); ++i) done_[i].store(0, std::memory_order_relaxed);
}

Rows Forward::rows(int reg) const {
  if (reg != kLogits) return {data_[reg].as<float>(), network_.registers[reg].stride};
  const size_t v = (size_t)network_.vocab_size;
  if (pad_logits_) return {padded_logits_.as<float>(), (v + 15) / 16 * 16};
  return {logits_, v};
}

Acts Forward::acts(int reg, const Instruction& op) const {
  const Register& r = network_.registers[reg];
  return {quantized_[reg].as<void>(), (int)r.stride, row_count(op), r.whole_groups, r.shifts};
}

void Forward::range(int n, int thread, int* first, int* last) const {
  *first = (int)((int64_t)n * thread / pool_.size());
  *last = (int)((int64_t)n * (thread + 1) / pool_.size());
}

static int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void Forward::run(const Plan& plan, float* logits) {
  check_.check(plan);
  if (plan.n_rows == 0) return;
  plan_ = &plan;
  logits_ = logits;
  prepare(plan);
  const int64_t began = times_.empty() ? 0 : now_ns();
  std::fill(times_.begin(), times_.end(), Times());
  pool_.run([](void* self, int thread) { static_cast<Forward*>(self)->walk(thread); }, this);
  fill_times(began);
  if (pad_logits_)
    for (int w = 0; w < plan.n_wanted; ++w)
      memcpy(logits + (size_t)w * network_.vocab_size, rows(kLogits).row(w),
             network_.vocab_size * sizeof(float));
}

// Stage by stage, each begun when all the work before it is done: not when all threads have come so far, for
// one of them may have lost its core. The others then do what it has not begun.
void Forward::walk(int thread) {
  kv_ahead_[thread].index = network_.instructions.size();
  Ahead& ahead = ahead_[thread];
  const auto bite = [&ahead] { ahead.bite(); };
  int end = progress_.value();
  for (size_t s = 0; s < stages_.size(); ++s) {
    const Stage& stage = stages_[s];
    if (stage.n_units == 0) continue;
    end = (int)((unsigned)stage.ended_before + 1);
    if (!Signal::before(progress_.value(), end)) continue;  // it has ended without this thread
    note_first(stage.index, thread, &Times::ready);
    progress_.wait_for(stage.ended_before, Pool::kSpins, bite);
    note_first(stage.index, thread, &Times::began);
    const int n_done = work_on(stage, s, thread);
    // Hands on what this thread wrote; who finds all units done hands on what all wrote.
    if (n_done > 0 && done_[s].fetch_add(n_done, std::memory_order_acq_rel) + n_done == stage.n_units)
      progress_.raise();
  }
  progress_.wait_for(end, Pool::kSpins, bite);
}

// How many units this thread has done.
int Forward::work_on(const Stage& stage, size_t number, int thread) {
  if (stage.kind == Stage::kRows) return row_work(stage, number, thread);
  const int n_done = stage.kind == Stage::kTiles   ? linear(stage, number, thread)
                     : stage.kind == Stage::kItems ? attend(stage, number, thread)
                                                   : merge_heads(stage, number, thread);
  note(stage.index, thread, &Times::ended);
  return n_done;
}

// Every thread takes rows of its own to begin with, and then those that others have not begun.
int Forward::row_work(const Stage& stage, size_t number, int thread) {
  int n_done = 0;
  for (int i = 0; i < pool_.size(); ++i) {
    const int owner = (thread + i) % pool_.size();
    int first, last, begin, end;
    range(stage.n_units, owner, &first, &last);
    if (!take(counter(number, owner), last - first, last - first, &begin, &end)) continue;
    if (number == 0) fill_rope_tables(first, last);
    for (const RowWork& work : stage.work) {
      note_first(work.index, thread, &Times::ready);
      note_first(work.index, thread, &Times::began);
      work_on_rows(work, first, last);
      note(work.index, thread, &Times::ended);
    }
    n_done += last - first;
  }
  return n_done;
}

void Forward::work_on_rows(const RowWork& work, int first, int last) {
  const Instruction& op = network_.instructions[work.index];
  if (work.part == RowPart::kStore) return store_rows(op, first, last);
  if (work.part == RowPart::kMerge) return merge_rows(op, deal(work.index), first, last);
  if (op.kind == OpKind::kSelect) return select(op, first, last);
  for (int row = first; row < last; ++row) row_op(op, row);
}

void Forward::note_times(bool on) {
  times_.assign(on ? network_.instructions.size() * pool_.size() : 0, Times());
}

void Forward::note(size_t index, int thread, int64_t Times::* moment) {
  if (!times_.empty()) times_[thread * network_.instructions.size() + index].*moment = now_ns();
}

void Forward::note_first(size_t index, int thread, int64_t Times::* moment) {
  if (!times_.empty() && times_[thread * network_.instructions.size() + index].*moment == 0)
    note(index, thread, moment);
}

// What a thread had no part in took it no time, and nothing began before what came before it ended.
void Forward::fill_times(int64_t began) {
  const size_t n = network_.instructions.size();
  int64_t last = began;
  for (size_t i = 0; i < times_.size(); ++i) {
    if (i % n == 0) last = began;
    Times& times = times_[i];
    times.ready = std::max(times.ready, last);
    times.began = std::max(times.began, times.ready);
    times.ended = last = std::max(times.ended, times.began);
  }
}

}  // namespace unspool
