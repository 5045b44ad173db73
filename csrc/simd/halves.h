// Eight groups of activations stored one by one, where no instructions do more of them at once.
#pragma once
#include "../packed.h"

namespace unspool {
namespace UNSPOOL_ISA {

// Quants of n <= 8 groups, `step` apart, each half from a vector; all others are zero. Gives their sums.
static inline I store_quants(const I halves[16], ActGroup* to, int step, int n) {
  for (int i = 0; i < 2 * n; ++i) i_store_i8(to[i / 2 * step].q + 16 * (i % 2), halves[i]);
  return i_sum_each(halves);
}

// What follows the quants. Lane 2 g + h has what half h of group g says; wsum32 has its value in both. Of the
// union, the bits of what Acts wants.
static inline void store_halves(F scale, I minus, I shift_or_wsum16, I times, F wsum32, ActGroup* to,
                                int step, int n) {
  float scales[16], sums[16];
  int32_t minuses[16], all_of_union[16], all_times[16];
  f_store(scales, scale);
  i_store(minuses, minus);
  i_store(all_of_union, shift_or_wsum16);
  i_store(all_times, times);
  f_store(sums, wsum32);
  for (int i = 0; i < 2 * n; ++i) {
    ActGroup& group = to[i / 2 * step];
    group.scale[i % 2] = scales[i];
    group.minus[i % 2] = minuses[i];
    group.shift[i % 2] = all_of_union[i];
    group.times[i % 2] = (int16_t)all_times[i];
    group.wsum32 = sums[i];
  }
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
