// Mins of the groups that share an upper scale, in kinds that multiply sums in 16 bits.
#pragma once

namespace unspool {
namespace UNSPOOL_ISA {

// Each is `upper` times an integer; those of two neighbouring groups are a pair.
struct PieceMins {
  static constexpr int kPairs = kSuper / kGroup / 2;
  F upper;
  I pairs[kPairs];
};

// By the sums of NR rows, which lie [pair][row]: adds what comes of it to acc, one of each row.
template <int NR>
static inline void add_mins(const PieceMins& mins, const SumPair* sums, F acc[NR]) {
  I totals[NR];
  for (int r = 0; r < NR; ++r) totals[r] = i_set1(0);
  for (int p = 0; p < PieceMins::kPairs; ++p)
    for (int r = 0; r < NR; ++r) totals[r] = i_dot_pairs(totals[r], mins.pairs[p], sums[p * NR + r].of);
  for (int r = 0; r < NR; ++r) acc[r] = f_fma(f_from_i(totals[r]), mins.upper, acc[r]);
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
