// One forward pass of a network over the rows of a plan.
#pragma once
#include <stdint.h>

#include <atomic>
#include <memory>
#include <vector>

#include "ahead.h"
#include "cascade.h"
#include "deal.h"
#include "kv_ahead.h"
#include "kv_store.h"
#include "laps.h"
#include "network.h"
#include "plan.h"

namespace unspool {

class Forward {
 public:
  Forward(const Network& network, const Kernels& kernels, Pool& pool, KvStore& kv);

  // logits: (W, V). Throws std::invalid_argument when the plan names a token, page or row out of range.
  void run(const Plan& plan, float* logits);

  // Whether passes note their times from now on; without, no clock is read.
  void note_times(bool on);
  // Of the last pass that noted them.
  const std::vector<Lap>& laps(int thread) const { return laps_[thread].all(); }

 private:
  // Work of an instruction on some rows. Attention has two kinds of it, before and after its items.
  enum class RowPart : uint8_t { kWhole, kStore, kMerge };
  struct RowWork {
    size_t index;
    RowPart part;
  };

  // Work that needs nothing but what earlier stages made, in units that any thread may take: rows through
  // consecutive instructions, tiles of a linear one, items of an attention, heads to be merged.
  struct Stage {
    enum Kind { kRows, kTiles, kItems, kHeads } kind;
    size_t index;               // instruction, the first one of rows
    std::vector<RowWork> work;  // on rows
    size_t weight_bytes = 0;    // that every unit of rows passes over
    int n_units = 0;            // of this pass
    int ended_before = 0;       // progress_ when it may begin

    static constexpr size_t kFewWeights = 8 * 1024 * 1024;
    // So few stay in a cache from one unit of rows to the next.
    bool keeps_weights() const { return weight_bytes <= kFewWeights; }
    // Units of rows begin at multiples of it: products take whole blocks of their inputs.
    int grain() const { return weight_bytes > 0 ? Acts::kBlock : 1; }
  };

  std::vector<Stage> make_stages(bool wide) const;
  bool is_wide(const Plan& plan) const;
  int units(const Stage& stage) const;
  int row_units(const Stage& stage, int n_rows) const;
  void rows_of(const Stage& stage, int unit, int* first, int* last) const;
  size_t most_laps() const;
  void prepare(const Plan& plan);
  void walk(int thread);
  int work_on(const Stage& stage, size_t number, int thread);
  int row_work(const Stage& stage, size_t number, int thread);
  void work_on_rows(const RowWork& work, int first, int last, int thread, bool in_cache);
  int linear(const Stage& stage, size_t number, int thread);
  // What a thread computes of a linear instruction.
  struct Share {
    int first, last;  // rows
    int thread;
    bool all_tiles;  // for them; otherwise its range, and what is left of others'
    bool in_cache;   // the weights
  };
  void linear_rows(const Instruction& op, const Share& share);
  static bool take(std::atomic<int>& next, int n, int least, int* begin, int* end);
  void tiles(const Instruction& op, int begin, int end, const Share& share);
  void product(const Instruction& op, const Part& part, int tile0, int tile1, const Share& share,
               const uint8_t* then);
  const uint8_t* tile(const Instruction& op, int t) const;
  const uint8_t* after(const Instruction& op, int t, const Share& share) const;
  void gate_columns(const Instruction& op, int begin, int end, int first_row, int last_row);
  void look_ahead(size_t index, int thread);
  KvAhead* kv_ahead(const Instruction& op, int thread);
  void fill_rope_tables(int first, int last);
  void rope_row(const Instruction& op, int row);
  // attention
  const Deal& deal(size_t index) const { return deals_[deal_of_[index]]; }
  bool merges_by_head(const Deal& deal) const {
    return deal.n_slots() > 0 && plan_->n_rows < 2 * pool_.size();
  }
  float* partial(const Deal& deal, int row, int head, int n_heads) const;
  void store_rows(const Instruction& op, int first, int last);
  int attend(const Stage& stage, size_t number, int thread);
  void attend_item(const Instruction& op, const Deal& deal, int item, int next, float* scratch);
  Upcoming upcoming(const Instruction& op, const Deal& deal, int item) const;
  int merge_heads(const Stage& stage, size_t number, int thread);
  void merge_rows(const Instruction& op, const Deal& deal, int first, int last);
  void merge_head(const Instruction& op, const Deal& deal, int row, int head);
  void select(const Instruction& op, int first, int last);
  void row_op(const Instruction& op, int row);
  void leave_forms(const Instruction& op, int row);

  Rows rows(int reg) const;
  Acts acts(int reg, const Instruction& op) const;  // of the rows that op runs over
  Halves halves(int reg) const;
  int row_count(const Instruction& op) const { return op.selected ? plan_->n_wanted : plan_->n_rows; }
  void range(int n, int thread, int* first, int* last) const;

  const Network& network_;
  const Kernels& kernels_;
  Pool& pool_;
  KvStore& kv_;
  PlanCheck check_;

  const Plan* plan_ = nullptr;
  float* logits_ = nullptr;
  Memory padded_logits_;  // when the vocabulary is no multiple of 16
  bool pad_logits_ = false;

  int capacity_ = 0;  // rows the buffers hold
  Arena buffers_;
  std::vector<uint8_t*> data_, quantized_, halved_;
  std::vector<int32_t> positions_;             // (R,)
  std::vector<std::vector<float>> cos_, sin_;  // per rope: (R, n / 2)
  Cascade cascade_;
  std::vector<Deal> deals_;               // one for each kind of attention
  std::vector<int> deal_of_;              // per instruction
  Memory partial_;                        // slots of parts times heads, partial_floats each
  Memory scratch_;                        // attention_scratch for each thread
  Memory gemm_scratch_;                   // kGemmScratch for each thread
  std::vector<Stage> narrow_, wide_;      // of plans of few and of many rows
  std::vector<Stage>* stages_ = nullptr;  // of this pass
  // Units taken of the ranges that a stage is cut into, one for each thread to begin with; those of one
  // thread lie together.
  std::atomic<int>& counter(size_t stage, int thread) { return next_[thread * narrow_.size() + stage]; }
  std::unique_ptr<std::atomic<int>[]> next_;
  std::unique_ptr<std::atomic<int>[]> done_;  // units of each stage that are done
  Signal progress_;                           // raised once for each stage that ends
  std::unique_ptr<Ahead[]> ahead_;            // (threads,)
  std::unique_ptr<KvAhead[]> kv_ahead_;
  bool notes_times_ = false;
  std::unique_ptr<Laps[]> laps_;
};

}  // namespace unspool
