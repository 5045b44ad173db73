// The integer unit kept as busy as it can be: what the matrix products are measured against.
#pragma once

namespace unspool {
namespace UNSPOOL_ISA {

// kDotsARound multiply-adds, `rounds` times over. The result only keeps the loop alive.
static int dots(int rounds) {
  constexpr int kChains = kDotsARound / 64;  // sums that do not wait for each other
  alignas(64) uint8_t bytes[64];
  alignas(4) int8_t four[4] = {1, 2, 3, 4};
  for (int i = 0; i < 64; ++i) bytes[i] = (uint8_t)i;
  const uint8_t* volatile source = bytes;  // it may point elsewhere next time: every round counts
  I sums[kChains];
#pragma GCC unroll 10
  for (int i = 0; i < kChains; ++i) sums[i] = i_set1(i);
  for (int n = 0; n < rounds; ++n) {
    const W weights = w_load(source);
    const I quad = i_quad(four);
#pragma GCC unroll 10
    for (int i = 0; i < kChains; ++i) sums[i] = i_dot7(sums[i], weights, quad);
  }
  I total = sums[0];
#pragma GCC unroll 10
  for (int i = 1; i < kChains; ++i) total = i_add(total, sums[i]);
  int first_lane;
  __builtin_memcpy(&first_lane, &total, sizeof first_lane);
  return first_lane;
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
