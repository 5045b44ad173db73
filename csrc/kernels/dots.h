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
  I sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = i_set1(i);
  for (int n = 0; n < rounds; ++n) {
    asm volatile("" : : "r"(bytes), "r"(four) : "memory");  // they may have changed: every round counts
    const W weights = w_load(bytes);
    const I quad = i_quad(four);
#pragma GCC unroll 10
    for (int i = 0; i < kChains; ++i) sums[i] = i_dot7(sums[i], weights, quad);
  }
  int total = 0, first_lane;
  for (int i = 0; i < kChains; ++i) {
    __builtin_memcpy(&first_lane, &sums[i], sizeof first_lane);
    total ^= first_lane;
  }
  return total;
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
