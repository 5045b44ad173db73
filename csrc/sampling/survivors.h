// The candidates of one row that are still alive, in one of two forms.
//
// As a row: the model's float32 logits, never rewritten. What stages did to all of them alike (temperature)
// is a map applied on reading; the few that were edited one by one are taken out of the row (-inf stands in
// their place until the end) and held aside in float64. The largest logit of each block is an index: to
// find who is above a threshold, only blocks whose largest is above it are read.
// As a list: ids and float64 logits, in no order, once a stage has cut.
#pragma once
#include <math.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "program.h"
#include "vectors.h"

namespace unspool::sampling {

constexpr double kDeepest = -1e300;  // a difference of logits beyond it is put here: distribution.py

// One monotone step from logits to logits, rounded as the stage in Python does.
struct Map {
  enum Kind : uint8_t { kDivide, kFromTop, kSmooth } kind;
  double top;
  double a, b, c;  // temperature | factor, k, s

  double operator()(double z) const {
    if (kind == kDivide) return z / a;
    if (kind == kFromTop) return (z - top) / a;
    if (z >= top) return z;  // as of infinity, when a threshold is looked for
    const double d = std::max(z - top, kDeepest);
    return top + a * (d * d) * (c * d - b);
  }
};

// Sums over the survivors' weights e^(z - top). The first in order has the weight 1 and is left out, so that
// nothing is lost where it has nearly all the mass.
struct Sums {
  double top;
  double others;    // sum of the other weights
  double weighted;  // sum of (z - top) times weight

  double total() const { return 1 + others; }
  double log_total() const { return log1p(others); }  // ln p = z - top - log_total
  double entropy() const { return log_total() - weighted / total(); }
};

// A survivor in the order that a cut goes by, and what it weighs there: see prefix.cpp.
struct Ranked {
  double key;  // ascending
  double weight;
  Candidate candidate;
};

// Memory that rows of one thread use one after the other.
struct Workspace {
  std::vector<float> maxima;                     // of each block
  std::vector<float> selected;                   // a copy of it to select from
  std::vector<int32_t> found;                    // ids
  std::vector<int32_t> slot;                     // (V,) of a token held aside or listed, from 1; else 0
  std::vector<double> weights;                   // of a list
  std::vector<Ranked> items;                     // see prefix.cpp
  std::vector<uint8_t> coarse;                   // of the vocabulary, see choose.cpp
  std::vector<Candidate> kept;                   // who stays, before they are the list
  std::vector<Candidate> aside, list, head;      // see Survivors
  std::vector<std::pair<int32_t, float>> taken;  // what stood in the row
};

class Survivors {
 public:
  Survivors(const Vectors& vectors, float* row, int n_vocab, Workspace& work);
  ~Survivors();
  Survivors(const Survivors&) = delete;

  bool listed() const { return listed_; }
  // Whether no NaN and no +inf is among them. If not, nothing else may be asked.
  bool sound() {
    if (!listed_) index();
    return sound_;
  }
  std::vector<Candidate>& list();  // becomes a list of all survivors

  double top();    // the largest logit; -inf when nobody is alive
  size_t count();  // how many are alive
  bool anyone();   // whether one is
  Sums sums();
  Candidate best();  // the first in order; id -1 when nobody is alive

  // z = edit(z, i) for the i-th of ids (n,) where it is alive. Ids beyond the vocabulary are nobody's.
  template <class Edit>
  void edit(const int32_t* ids, size_t n, Edit&& edit);
  void keep_only(const std::vector<int32_t>& ids);
  void ban_unless_last(const std::vector<int32_t>& ids);  // nothing when nobody else is alive
  void ban(const int32_t* ids, size_t n) {
    edit(ids, n, [](double, size_t) { return -INFINITY; });
  }
  void map(const Map& step);
  const std::vector<Map>& maps() const { return maps_; }
  void keep_near(double top, double distance);  // z - top >= distance

  // Survivors that include the first m in order and everybody who stands before the last of them; all when
  // there are no more. In no order. A reference to memory that the next call overwrites.
  std::vector<Candidate>& head(size_t m);
  bool has_quick_head(size_t m) { return listed_ ? work_.list.size() > m : m <= work_.maxima.size(); }
  // Survivors with z - top >= distance, likewise.
  std::vector<Candidate>& near(double top, double distance);
  void become(std::vector<Candidate>& chosen);  // the survivors are these, and a list

  // Adds count, sum and sum of squares of x - about over the row.
  void row_moments(double about, double* sums) { vectors_.moments(row_, n_vocab_, about, sums); }

  // e^(z - top) of each of candidates, 0 below -708; a reference to memory that the next call overwrites.
  std::vector<double>& weights_of(const std::vector<Candidate>& candidates, double top);
  Workspace& workspace() { return work_; }

  // For who walks the row itself: see choose.cpp.
  const float* row() const { return row_; }
  int n_vocab() const { return n_vocab_; }
  const std::vector<float>& maxima() { return index(), work_.maxima; }
  const std::vector<Candidate>& aside() const { return work_.aside; }
  float row_top() { return index(), row_top_; }
  double mapped(double x) const {
    for (const Map& step : maps_) x = step(x);
    return x;
  }

 private:
  void index();
  void fetch(const int32_t* ids, size_t n) const;  // brings what slot_of reads nearer, all at once
  int32_t slot_of(int32_t id);  // of a token, taken out of the row if it still stands there; -1: not alive
  float least_near(double top, double distance) const;
  void leave_row();
  void bury();  // the dead of the list
  void collect(double top, double distance, std::vector<Candidate>& out);

  const Vectors& vectors_;
  float* const row_;
  const int n_vocab_;
  Workspace& work_;
  std::vector<Map> maps_;
  bool listed_ = false;
  bool indexed_ = false;
  bool sound_ = true;
  float row_top_ = -INFINITY;  // over the row, when indexed
};

template <class Edit>
void Survivors::edit(const int32_t* ids, size_t n, Edit&& edit) {
  auto& candidates = listed_ ? work_.list : work_.aside;
  if (listed_)
    for (size_t i = 0; i < candidates.size(); ++i) work_.slot[candidates[i].id] = (int32_t)i + 1;
  else
    fetch(ids, n);
  for (size_t i = 0; i < n; ++i) {
    const int32_t slot = slot_of(ids[i]);
    if (slot < 0 || !(candidates[slot].z > -INFINITY)) continue;
    candidates[slot].z = edit(candidates[slot].z, i);
    sound_ &= candidates[slot].z < INFINITY;
  }
  if (!listed_) return;
  for (const Candidate& candidate : candidates) work_.slot[candidate.id] = 0;
  bury();
}

}  // namespace unspool::sampling
