// How the attention of a plan is dealt out: which rows share a pass over which segments of K and V, and
// which thread begins with what.
#pragma once
#include <algorithm>
#include <vector>

#include "cascade.h"
#include "kernels.h"
#include "plan.h"

namespace unspool {

// Rows that attend to segments [first, last) of the same pages in one pass.
struct Unit {
  int rows, n_rows;  // [rows, rows + n_rows) of the deal's rows
  const int32_t* pages;
  int first, last;
  int oldest, newest;  // positions of the rows

  // The first token that a row attends to, and the one behind the last.
  int first_token(const AttentionShape& shape) const {
    return std::max(first * kSegment, shape.window > 0 ? oldest - shape.window + 1 : 0);
  }
  int end_token() const { return std::min(last * kSegment, newest + 1); }
};

// One kv head of a unit, and those of its query heads that share the pass.
struct Item {
  const Unit& unit;
  int kv_head, first_head, n_heads;
};

// Where results of a row lie that several units attend for: slot 0 is all segments before `lead` together, as
// the unit that has the first of them leaves it; each segment from there on has a slot of its own.
struct Parts {
  int at;    // slot 0, counted in slots of one head
  int lead;  // segment
  int n;     // slots; 0: one unit attends for the row and there are no parts

  int slot(const Unit& unit) const { return leads(unit) ? 0 : unit.first - lead + 1; }
  bool leads(const Unit& unit) const { return unit.last <= lead; }
};

// Attention instructions that see the same window with the same heads are dealt out alike.
class Deal {
 public:
  Deal(int window, int n_heads, int n_kv_heads, int n_threads);
  bool fits(int window, int n_heads, int n_kv_heads) const {
    return window == window_ && n_heads == n_heads_ && n_kv_heads == n_kv_heads_;
  }

  void make(const Plan& plan, const Cascade& cascade, const int32_t* positions);

  Item item(int index) const;
  // Items [first(t), first(t + 1)) are thread t's to begin with, about as much work for each.
  int first(int thread) const { return bounds_[thread]; }
  int row(const Unit& unit, int i) const { return rows_[unit.rows + i]; }
  const Parts& parts(int row) const { return parts_[row]; }
  int n_slots() const { return n_slots_; }  // of all rows

 private:
  void add_shared(const Cascade& cascade, const Stretch& stretch);
  void add_own(int sequence, int first);
  void add_block(const int32_t* pages, int first, int last);
  void split_long();
  void split(const Unit& block, int n);
  void place_parts();
  void place_bounds();
  int first_seen(int position) const;

  const int window_, n_heads_, n_kv_heads_, n_threads_;
  const int chunks_;      // passes that the query heads of a kv head take
  const int block_rows_;  // of one pass
  const Plan* plan_ = nullptr;
  const int32_t* positions_ = nullptr;
  std::vector<Unit> blocks_, units_;  // before and after long ones are split
  std::vector<int> rows_;
  std::vector<Parts> parts_;  // (R,)
  std::vector<int> bounds_;   // (threads + 1,)
  int n_slots_ = 0;
};

}  // namespace unspool
