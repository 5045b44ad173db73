#include "forward.h"

#include <string.h>

#include <algorithm>

namespace unspool {

Forward::Forward(const Network& network, const Kernels& kernels, Pool& pool, KvStore& kv)
    : network_(network),
      kernels_(kernels),
      pool_(pool),
      kv_(kv),
      check_(network.vocab_size, network.context_length, kv.n_pages, kv.page_size) {
  cos_.resize(network.ropes.size());
  sin_.resize(network.ropes.size());
  narrow_ = make_stages(false);
  wide_ = make_stages(true);
  next_.reset(new std::atomic<int>[narrow_.size() * pool.size()]);  // wide ones are fewer
  done_.reset(new std::atomic<int>[narrow_.size()]);
  ahead_.reset(new Ahead[pool.size()]);
  kv_ahead_.reset(new KvAhead[pool.size()]);
  laps_.reset(new Laps[pool.size()]);
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

// Buffers only grow, doubled so that plans which grow row by row seldom come here, with the old ones beside
// the new for a moment. They do so only here, before any thread works: where memory runs out, all is as it
// was.
void Forward::prepare(const Plan& p) {
  if (p.n_rows > capacity_) {
    const size_t n = std::max((size_t)p.n_rows, 2 * (size_t)capacity_);
    Arena buffers;
    std::vector<uint8_t*> data, quantized, halved;
    for (const Register& reg : network_.registers) {
      data.push_back(buffers.take(n * reg.stride * sizeof(float)));
      quantized.push_back(reg.quantized ? buffers.take(Acts::bytes(n, reg.stride)) : nullptr);
      halved.push_back(reg.halved ? buffers.take(n * reg.stride * sizeof(uint16_t)) : nullptr);
    }
    for (size_t i = 0; i < cos_.size(); ++i) {
      cos_[i].resize(n * network_.ropes[i].inv_freq.size());
      sin_[i].resize(cos_[i].size());
    }
    buffers_ = std::move(buffers);
    data_ = std::move(data);
    quantized_ = std::move(quantized);
    halved_ = std::move(halved);
    capacity_ = (int)n;
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
  stages_ = is_wide(p) ? &wide_ : &narrow_;
  int ended = progress_.value();
  for (Stage& stage : *stages_) {
    stage.n_units = units(stage);
    stage.ended_before = ended;
    // Of those without units nobody tells that they ended. Unsigned, for the count goes round.
    ended = (int)((unsigned)ended + (stage.n_units > 0));
  }
  for (size_t i = 0; i < narrow_.size() * pool_.size(); ++i) next_[i].store(0, std::memory_order_relaxed);
  for (size_t i = 0; i < narrow_.size(); ++i) done_[i].store(0, std::memory_order_relaxed);
  if (notes_times_)
    for (int t = 0; t < pool_.size(); ++t) laps_[t].start(true, most_laps());
}

Rows Forward::rows(int reg) const {
  if (reg != kLogits) return {reinterpret_cast<float*>(data_[reg]), network_.registers[reg].stride};
  const size_t v = (size_t)network_.vocab_size;
  if (pad_logits_) return {padded_logits_.as<float>(), (v + 15) / 16 * 16};
  return {logits_, v};
}

Acts Forward::acts(int reg, const Instruction& op) const {
  const Register& r = network_.registers[reg];
  return {quantized_[reg], (int)r.stride, row_count(op), r.whole_groups, r.shifts, r.has_sums};
}

Halves Forward::halves(int reg) const {
  return {reinterpret_cast<uint16_t*>(halved_[reg]), network_.registers[reg].stride};
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

// Stage by stage, each begun when all the work before it is done: not when all threads have come so far, for
// one of them may have lost its core. The others then do what it has not begun.
void Forward::walk(int thread) {
  kv_ahead_[thread].forget();
  Ahead& ahead = ahead_[thread];
  Laps& laps = laps_[thread];
  const auto bite = [&ahead] { ahead.bite(); };
  int end = progress_.value();
  for (size_t s = 0; s < stages_->size(); ++s) {
    const Stage& stage = (*stages_)[s];
    if (stage.n_units == 0) continue;
    end = (int)((unsigned)stage.ended_before + 1);
    if (!Signal::before(progress_.value(), end)) continue;  // it has ended without this thread
    laps.ready();
    progress_.wait_for(stage.ended_before, Pool::kSpins, bite);
    laps.began();
    const int n_done = work_on(stage, s, thread);
    if (stage.kind != Stage::kRows || n_done == 0) laps.ended(stage.index);  // rows note their own
    // Hands on what this thread wrote; who finds all units done hands on what all wrote.
    if (n_done > 0 && done_[s].fetch_add(n_done, std::memory_order_acq_rel) + n_done == stage.n_units)
      progress_.raise();
  }
  progress_.wait_for(end, Pool::kSpins, bite);
}

// How many units this thread has done.
int Forward::work_on(const Stage& stage, size_t number, int thread) {
  switch (stage.kind) {
    case Stage::kRows:
      return row_work(stage, number, thread);
    case Stage::kTiles:
      return linear(stage, number, thread);
    case Stage::kItems:
      return attend(stage, number, thread);
    default:
      return merge_heads(stage, number, thread);
  }
}

void Forward::note_times(bool on) {
  notes_times_ = on;
  for (int t = 0; t < pool_.size(); ++t) laps_[t].start(on, 0);
}

}  // namespace unspool
