// The stages, each on the survivors of one row. What they mean is said in the Python files of the same
// names; here is only how it is had without a pass over the vocabulary, or with one.
#pragma once
#include "noise.h"
#include "survivors.h"

namespace unspool::sampling {

// Python's tolerance at thresholds (cut.py): always to the side of keeping.
constexpr double kSlack = 1e-6;

void apply_edit(const Op& op, const RowJob& job, Survivors& survivors);  // masks, penalties, bias
void apply_temperature(const Op& op, Survivors& survivors);              // and its kinds
void apply_threshold(const Op& op, Survivors& survivors);                // cuts at a logit
void apply_prefix(const Op& op, Survivors& survivors);                   // cuts in an order

void keep_first(size_t k, bool with_ties,
                Survivors& survivors);  // in order of logit; with all equal to the last
// Those of a log-probability of at least ln_p, and the top or all that equal it, given ln of the sum of
// weights e^(z - top).
void keep_likely(double ln_p, double log_total, bool tied_tops, Survivors& survivors);

// What is remembered of a stage that learns from the chosen token, which is not chosen yet.
struct Lesson {
  OpKind stage = OpKind::kCount;  // kCount: none learns
  double top = 0, log_total = 0;  // of the distribution that it looks at: ln p = z - top - log_total
  std::vector<Candidate> before;  // logits at that place, where later stages change them
  double of(Candidate chosen) const;
};
void apply_steering(const Op& op, const RowJob& job, bool is_last, Survivors& survivors, Lesson& lesson);
void apply_xtc(const Op& op, const RowJob& job, Survivors& survivors);
void apply_tail_free(const Op& op, Survivors& survivors);

}  // namespace unspool::sampling
