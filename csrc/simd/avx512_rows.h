// Eight rows by one group of 4-bit weights on AVX-512, instruction by instruction.
//
// The dot products of a group take 64 turns of the multipliers, and what else is multiplied 16 or 24.
// Compilers arrive at 94 turns for 88, because sums of all rows end at once and what is done with them queues
// up. Here the sums of four rows, as many as keep the multipliers busy, end before those of the other four.
#pragma once
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "../kernels/asking.h"
#include "../packed.h"
#include "avx512.h"

namespace unspool {
namespace UNSPOOL_ISA {

// Registers 8 to 15 and 16 to 23 hold the sums of the first and the second half of the group, 24 to 27 the
// quants of a half, four inputs of sixteen outputs each.
#define UNSPOOL_UNPACK(AT)                       \
  "vmovdqu64 " #AT                               \
  "(%[group]), %%zmm24\n\t"                      \
  "vmovdqu64 " #AT                               \
  "+64(%[group]), %%zmm26\n\t"                   \
  "vpsrlw $4, %%zmm24, %%zmm25\n\t"              \
  "vpsrlw $4, %%zmm26, %%zmm27\n\t"              \
  "vpandd %[low]%{1to16%}, %%zmm24, %%zmm24\n\t" \
  "vpandd %[low]%{1to16%}, %%zmm25, %%zmm25\n\t" \
  "vpandd %[low]%{1to16%}, %%zmm26, %%zmm26\n\t" \
  "vpandd %[low]%{1to16%}, %%zmm27, %%zmm27\n\t"

// From nothing, or from what the offset of the quants comes to.
#define UNSPOOL_FROM_ZERO(ROW, HALF, SUM) "vpxord %%zmm" #SUM ", %%zmm" #SUM ", %%zmm" #SUM "\n\t"
#define UNSPOOL_FROM_MINUS(ROW, HALF, SUM)                           \
  "vpbroadcastd 64*" #ROW "+%c[minus]+4*" #HALF "(%[x]), %%zmm" #SUM \
  "\n\t"                                                             \
  "vpsllvd %[zero_bits], %%zmm" #SUM ", %%zmm" #SUM "\n\t"

#define UNSPOOL_DOT(QUAD, AT, ROW, SUM) \
  "vpdpbusd 64*" #ROW "+" #AT "(%[x])%{1to16%}, %%zmm" #QUAD ", %%zmm" #SUM "\n\t"
#define UNSPOOL_DOTS(QUAD, AT, R0, R1, R2, R3, S0, S1, S2, S3) \
  UNSPOOL_DOT(QUAD, AT, R0, S0)                                \
  UNSPOOL_DOT(QUAD, AT, R1, S1)                                \
  UNSPOOL_DOT(QUAD, AT, R2, S2)                                \
  UNSPOOL_DOT(QUAD, AT, R3, S3)
#define UNSPOOL_FOUR_ROWS(FROM, HALF, R0, R1, R2, R3, S0, S1, S2, S3) \
  FROM(R0, HALF, S0)                                                  \
  FROM(R1, HALF, S1)                                                  \
  FROM(R2, HALF, S2)                                                  \
  FROM(R3, HALF, S3)                                                  \
  UNSPOOL_DOTS(24, 16 * HALF, R0, R1, R2, R3, S0, S1, S2, S3)         \
  UNSPOOL_DOTS(25, 16 * HALF + 4, R0, R1, R2, R3, S0, S1, S2, S3)     \
  UNSPOOL_DOTS(26, 16 * HALF + 8, R0, R1, R2, R3, S0, S1, S2, S3)     \
  UNSPOOL_DOTS(27, 16 * HALF + 12, R0, R1, R2, R3, S0, S1, S2, S3)

#define UNSPOOL_DOTS_OF_GROUP(FROM)                      \
  UNSPOOL_UNPACK(0)                                      \
  UNSPOOL_FOUR_ROWS(FROM, 0, 0, 1, 2, 3, 8, 9, 10, 11)   \
  UNSPOOL_FOUR_ROWS(FROM, 0, 4, 5, 6, 7, 12, 13, 14, 15) \
  UNSPOOL_UNPACK(128)                                    \
  UNSPOOL_FOUR_ROWS(FROM, 1, 0, 1, 2, 3, 16, 17, 18, 19) \
  UNSPOOL_FOUR_ROWS(FROM, 1, 4, 5, 6, 7, 20, 21, 22, 23)

// Both halves of a row by their scales, in integers as i_dot2 does; then by the weights' scale.
#define UNSPOOL_ADD(ROW, FIRST, SECOND)                                           \
  "vpslld $16, %%zmm" #SECOND ", %%zmm" #SECOND                                   \
  "\n\t"                                                                          \
  "vpblendmw %%zmm" #SECOND ", %%zmm" #FIRST ", %%zmm" #FIRST                     \
  "%{%[odd]%}\n\t"                                                                \
  "vpxord %%zmm" #SECOND ", %%zmm" #SECOND ", %%zmm" #SECOND                      \
  "\n\t"                                                                          \
  "vpdpwssd 64*" #ROW "+%c[times](%[x])%{1to16%}, %%zmm" #FIRST ", %%zmm" #SECOND \
  "\n\t"                                                                          \
  "vcvtdq2ps %%zmm" #SECOND ", %%zmm" #SECOND                                     \
  "\n\t"                                                                          \
  "vfmadd231ps %[scale], %%zmm" #SECOND ", %[acc" #ROW "]\n\t"
// The same where the scales are powers of two.
#define UNSPOOL_ADD_SHIFTED(ROW, FIRST, SECOND)                                     \
  "vpsllvd 64*" #ROW "+%c[shift](%[x])%{1to16%}, %%zmm" #FIRST ", %%zmm" #FIRST     \
  "\n\t"                                                                            \
  "vpsllvd 64*" #ROW "+4+%c[shift](%[x])%{1to16%}, %%zmm" #SECOND ", %%zmm" #SECOND \
  "\n\t"                                                                            \
  "vpaddd %%zmm" #FIRST ", %%zmm" #SECOND ", %%zmm" #SECOND                         \
  "\n\t"                                                                            \
  "vcvtdq2ps %%zmm" #SECOND ", %%zmm" #SECOND                                       \
  "\n\t"                                                                            \
  "vfmadd231ps %[scale], %%zmm" #SECOND ", %[acc" #ROW "]\n\t"
#define UNSPOOL_ADD_MIN(ROW) "vfmadd231ps 64*" #ROW "+%c[wsum](%[x])%{1to16%}, %[min], %[acc" #ROW "]\n\t"
#define UNSPOOL_ADD_MINS \
  UNSPOOL_ADD_MIN(0)     \
  UNSPOOL_ADD_MIN(1)     \
  UNSPOOL_ADD_MIN(2)     \
  UNSPOOL_ADD_MIN(3)     \
  UNSPOOL_ADD_MIN(4)     \
  UNSPOOL_ADD_MIN(5)     \
  UNSPOOL_ADD_MIN(6)     \
  UNSPOOL_ADD_MIN(7)
#define UNSPOOL_ADD_ROWS(ADD) \
  ADD(0, 8, 16)               \
  ADD(1, 9, 17)               \
  ADD(2, 10, 18)              \
  ADD(3, 11, 19)              \
  ADD(4, 12, 20)              \
  ADD(5, 13, 21)              \
  ADD(6, 14, 22)              \
  ADD(7, 15, 23)

#define UNSPOOL_SUMS                                                                                    \
  [acc0] "+v"(a0), [acc1] "+v"(a1), [acc2] "+v"(a2), [acc3] "+v"(a3), [acc4] "+v"(a4), [acc5] "+v"(a5), \
      [acc6] "+v"(a6), [acc7] "+v"(a7)
#define UNSPOOL_OPERANDS                                                                \
  [group] "r"(group), [x] "r"(x), [scale] "v"(scale), [odd] "Yk"(odd), [low] "m"(kLow), \
      [times] "i"(offsetof(ActGroup, times)), "m"(*(const uint8_t (*)[256])group),      \
      "m"(*(const ActGroup(*)[8])x)
#define UNSPOOL_CHANGED                                                                                     \
  "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", \
      "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27"

// Adds the products of a tile of 4-bit weights with eight rows to sums, by the operations of quant_tile; of a
// tile in pieces of so many groups, whose quants lie so far in.
// What is asked for meanwhile moves on by `ahead` bytes with each group.
template <class Shifts, class Groups, class QuantsAt, class Scales>
static inline void add_eight_rows(Shifts, Groups, QuantsAt, const uint8_t* group, int n_groups,
                                  Scales& scales, Asking asking, size_t ahead, const ActGroup* x, I zero_bits,
                                  F sums[8]) {
  static const uint32_t kLow = 0x0f0f0f0f;
  const __mmask32 odd = 0xaaaaaaaa;
  // Not in an array: that would live in memory.
  F a0 = sums[0], a1 = sums[1], a2 = sums[2], a3 = sums[3], a4 = sums[4], a5 = sums[5], a6 = sums[6],
    a7 = sums[7];
  for (int g = 0; g < n_groups; ++g, x += 8) {
    asking.go_on<5>(ahead);
    const F scale = scales.scale(g);
    if (Scales::kMin) {
      const F min = scales.min(g);
      if constexpr (Shifts::value)
        asm(UNSPOOL_ADD_MINS UNSPOOL_DOTS_OF_GROUP(UNSPOOL_FROM_ZERO) UNSPOOL_ADD_ROWS(UNSPOOL_ADD_SHIFTED)
            : UNSPOOL_SUMS
            : UNSPOOL_OPERANDS, [wsum] "i"(offsetof(ActGroup, wsum32)), [min] "v"(min),
              [shift] "i"(offsetof(ActGroup, shift))
            : UNSPOOL_CHANGED);
      else
        asm(UNSPOOL_ADD_MINS UNSPOOL_DOTS_OF_GROUP(UNSPOOL_FROM_ZERO) UNSPOOL_ADD_ROWS(UNSPOOL_ADD)
            : UNSPOOL_SUMS
            : UNSPOOL_OPERANDS, [wsum] "i"(offsetof(ActGroup, wsum32)), [min] "v"(min)
            : UNSPOOL_CHANGED);
    } else {
      asm(UNSPOOL_DOTS_OF_GROUP(UNSPOOL_FROM_MINUS) UNSPOOL_ADD_ROWS(UNSPOOL_ADD)
          : UNSPOOL_SUMS
          : UNSPOOL_OPERANDS, [minus] "i"(offsetof(ActGroup, minus)), [zero_bits] "v"(zero_bits)
          : UNSPOOL_CHANGED);
    }
    group += 256;
    if ((g + 1) % Groups::value == 0) group += QuantsAt::value;
  }
  const F all[8] = {a0, a1, a2, a3, a4, a5, a6, a7};
  for (int r = 0; r < 8; ++r) sums[r] = all[r];
}

#undef UNSPOOL_UNPACK
#undef UNSPOOL_FROM_ZERO
#undef UNSPOOL_FROM_MINUS
#undef UNSPOOL_DOT
#undef UNSPOOL_DOTS
#undef UNSPOOL_FOUR_ROWS
#undef UNSPOOL_DOTS_OF_GROUP
#undef UNSPOOL_ADD
#undef UNSPOOL_ADD_SHIFTED
#undef UNSPOOL_ADD_ROWS
#undef UNSPOOL_ADD_MIN
#undef UNSPOOL_ADD_MINS
#undef UNSPOOL_SUMS
#undef UNSPOOL_OPERANDS
#undef UNSPOOL_CHANGED

}  // namespace UNSPOOL_ISA
}  // namespace unspool
