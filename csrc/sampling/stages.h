// The stages, each on the survivors of one row. What they mean is said in the Python files of the same
// names; here is only how it is had without a pass over the vocabulary, or with one.
#pragma once
#include "survivors.h"

namespace unspool::sampling {

// Python's tolerance at thresholds (cut.py): always to the side of keeping.
constexpr double kSlack = 1e-6;

void apply_edit(const Op& op, const RowJob& job, Survivors& survivors);      // masks, penalties, bias
void apply_temperature(const Op& op, Survivors& survivors);                  // and its kinds
void apply_threshold(const Op& op, Survivors& survivors);                    // cuts at a logit
void apply_prefix(const Op& op, Survivors& survivors, const Vectors& vectors);  // cuts in an order

}  // namespace unspool::sampling
