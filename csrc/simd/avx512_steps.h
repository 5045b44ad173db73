// The steps of avx512_rows.h, instruction by instruction.
#pragma once

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
// The same where the scales are powers of two; of the group before x, whose scale lies before `scale`.
#define UNSPOOL_ADD_SHIFTED(ROW, FIRST, SECOND)                                         \
  "vpsllvd 64*" #ROW "-512+%c[shift](%[x])%{1to16%}, %%zmm" #FIRST ", %%zmm" #FIRST     \
  "\n\t"                                                                                \
  "vpsllvd 64*" #ROW "-512+4+%c[shift](%[x])%{1to16%}, %%zmm" #SECOND ", %%zmm" #SECOND \
  "\n\t"                                                                                \
  "vpaddd %%zmm" #FIRST ", %%zmm" #SECOND ", %%zmm" #SECOND                             \
  "\n\t"                                                                                \
  "vcvtdq2ps %%zmm" #SECOND ", %%zmm" #SECOND                                           \
  "\n\t"                                                                                \
  "vfmadd231ps -64(%[scale]), %%zmm" #SECOND ", %[acc" #ROW "]\n\t"
#define UNSPOOL_ASK(AT) "prefetcht1 " #AT "(%[next])\n\t"
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
#define UNSPOOL_OPERANDS                                                                   \
  [group] "r"(group), [x] "r"(x), [scale] "v"(scale), [odd] "Yk"(kOdd), [low] "m"(kMasks), \
      [times] "i"(offsetof(ActGroup, times)), "m"(*(const uint8_t (*)[256])group),         \
      "m"(*(const ActGroup(*)[8])x)
#define UNSPOOL_CHANGED                                                                                     \
  "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", \
      "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27"

// Of 6-bit weights the quants of a half, whose upper bits lie behind the lower ones.
#define UNSPOOL_UNPACK_SIX(HALF)                              \
  UNSPOOL_UNPACK(128 * HALF)                                  \
  "vmovdqu64 256+64*" #HALF                                   \
  "(%[group]), %%zmm28\n\t"                                   \
  "vpsllw $4, %%zmm28, %%zmm29\n\t"                           \
  "vpternlogd $0xf8, 4+%[low]%{1to16%}, %%zmm29, %%zmm24\n\t" \
  "vpsllw $2, %%zmm28, %%zmm29\n\t"                           \
  "vpternlogd $0xf8, 4+%[low]%{1to16%}, %%zmm29, %%zmm25\n\t" \
  "vpternlogd $0xf8, 4+%[low]%{1to16%}, %%zmm28, %%zmm26\n\t" \
  "vpsrlw $2, %%zmm28, %%zmm29\n\t"                           \
  "vpternlogd $0xf8, 4+%[low]%{1to16%}, %%zmm29, %%zmm27\n\t"
#define UNSPOOL_FROM_SIX(ROW, HALF, SUM)                             \
  "vpbroadcastd 64*" #ROW "+%c[minus]+4*" #HALF "(%[x]), %%zmm" #SUM \
  "\n\t"                                                             \
  "vpslld $5, %%zmm" #SUM ", %%zmm" #SUM "\n\t"
#define UNSPOOL_EIGHT_DOTS(QUAD, AT, S0, S1, S2, S3, S4, S5, S6, S7) \
  UNSPOOL_DOTS(QUAD, AT, 0, 1, 2, 3, S0, S1, S2, S3)                 \
  UNSPOOL_DOTS(QUAD, AT, 4, 5, 6, 7, S4, S5, S6, S7)
#define UNSPOOL_EIGHT_ROWS(FROM, HALF, S0, S1, S2, S3, S4, S5, S6, S7)  \
  FROM(0, HALF, S0)                                                     \
  FROM(1, HALF, S1)                                                     \
  FROM(2, HALF, S2)                                                     \
  FROM(3, HALF, S3)                                                     \
  FROM(4, HALF, S4)                                                     \
  FROM(5, HALF, S5)                                                     \
  FROM(6, HALF, S6)                                                     \
  FROM(7, HALF, S7)                                                     \
  UNSPOOL_EIGHT_DOTS(24, 16 * HALF, S0, S1, S2, S3, S4, S5, S6, S7)     \
  UNSPOOL_EIGHT_DOTS(25, 16 * HALF + 4, S0, S1, S2, S3, S4, S5, S6, S7) \
  UNSPOOL_EIGHT_DOTS(26, 16 * HALF + 8, S0, S1, S2, S3, S4, S5, S6, S7) \
  UNSPOOL_EIGHT_DOTS(27, 16 * HALF + 12, S0, S1, S2, S3, S4, S5, S6, S7)
// A half of a row, by its own scale; GROUP in bytes from x on.
#define UNSPOOL_ADD_HALF(ROW, HALF, GROUP, SCALE, SUM)                                             \
  "vpsllvd 64*" #ROW "+" #GROUP "+4*" #HALF "+%c[shift](%[x])%{1to16%}, %%zmm" #SUM ", %%zmm" #SUM \
  "\n\t"                                                                                           \
  "vcvtdq2ps %%zmm" #SUM ", %%zmm" #SUM                                                            \
  "\n\t"                                                                                           \
  "vfmadd231ps " #SCALE "(%[scale]), %%zmm" #SUM ", %[acc" #ROW "]\n\t"
#define UNSPOOL_ADD_HALVES(HALF, GROUP, SCALE, S0, S1, S2, S3, S4, S5, S6, S7) \
  UNSPOOL_ADD_HALF(0, HALF, GROUP, SCALE, S0)                                  \
  UNSPOOL_ADD_HALF(1, HALF, GROUP, SCALE, S1)                                  \
  UNSPOOL_ADD_HALF(2, HALF, GROUP, SCALE, S2)                                  \
  UNSPOOL_ADD_HALF(3, HALF, GROUP, SCALE, S3)                                  \
  UNSPOOL_ADD_HALF(4, HALF, GROUP, SCALE, S4)                                  \
  UNSPOOL_ADD_HALF(5, HALF, GROUP, SCALE, S5)                                  \
  UNSPOOL_ADD_HALF(6, HALF, GROUP, SCALE, S6)                                  \
  UNSPOOL_ADD_HALF(7, HALF, GROUP, SCALE, S7)
#define UNSPOOL_DOTS_OF_FIRST UNSPOOL_EIGHT_ROWS(UNSPOOL_FROM_SIX, 0, 8, 9, 10, 11, 12, 13, 14, 15)
#define UNSPOOL_DOTS_OF_SECOND UNSPOOL_EIGHT_ROWS(UNSPOOL_FROM_SIX, 1, 16, 17, 18, 19, 20, 21, 22, 23)
#define UNSPOOL_ADD_FIRST UNSPOOL_ADD_HALVES(0, 0, 0, 8, 9, 10, 11, 12, 13, 14, 15)
#define UNSPOOL_ADD_SECOND_BEFORE UNSPOOL_ADD_HALVES(1, -512, -64, 16, 17, 18, 19, 20, 21, 22, 23)

// Sums in variables of their own: an array would live in memory.
#define UNSPOOL_APART(ACC) \
  F a0 = ACC[0], a1 = ACC[1], a2 = ACC[2], a3 = ACC[3], a4 = ACC[4], a5 = ACC[5], a6 = ACC[6], a7 = ACC[7]
#define UNSPOOL_TOGETHER(ACC)                         \
  ACC[0] = a0, ACC[1] = a1, ACC[2] = a2, ACC[3] = a3; \
  ACC[4] = a4, ACC[5] = a5, ACC[6] = a6, ACC[7] = a7
