// Eight rows by a tile of 4-bit or 6-bit weights on AVX-512, instruction by instruction: avx512_steps.h.
//
// The dot products of a group take 64 turns of the multipliers, and what else is multiplied 13 to 24.
// Compilers need six more, because sums of all rows end at once and what is done with them queues up. Here
// the sums of four rows, as many as keep the multipliers busy, end before those of the other four; and
// shifts, which get in the way of dot products, wait until the next weights are unpacked.
#pragma once
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "../kernels/asking.h"
#include "../packed.h"
#include "avx512.h"
#include "avx512_steps.h"

namespace unspool {
namespace UNSPOOL_ISA {

static const uint32_t kMasks[2] = {0x0f0f0f0f, 0x30303030};  // of 4-bit weights, and of upper bits of 6
static const __mmask32 kOdd = 0xaaaaaaaa;

// Adds the products of a tile of 4-bit weights with eight rows to acc, by the operations of quant_tile; of a
// tile in pieces of so many groups, whose quants lie so far in. Pairs: its kind multiplies sums.
// What is asked for meanwhile moves on by `ahead` bytes with each group.
template <class Pairs, class Groups, class QuantsAt, class Scales>
static inline void add_eight_rows(Pairs, Groups, QuantsAt, const uint8_t* group, int n_groups, Scales& scales,
                                  Asking asking, size_t ahead, const ActGroup* x, I zero_bits, F acc[8]) {
  UNSPOOL_APART(acc);
  for (int g = 0; g < n_groups; ++g, x += 8) {
    asking.go_on<5>(ahead);
    if (Pairs::value && g % Groups::value == 0) scales.turn_to(g / Groups::value);
    const F scale = scales.scale(g);
    if constexpr (Pairs::value) {
      asm(UNSPOOL_UNPACK(0) UNSPOOL_DOTS_OF_GROUP(UNSPOOL_FROM_ZERO) UNSPOOL_ADD_ROWS(UNSPOOL_ADD)
          : UNSPOOL_SUMS
          : UNSPOOL_OPERANDS
          : UNSPOOL_CHANGED);
    } else if constexpr (Scales::kMin) {
      const F min = scales.min(g);
      asm(UNSPOOL_ADD_MINS UNSPOOL_UNPACK(0) UNSPOOL_DOTS_OF_GROUP(UNSPOOL_FROM_ZERO)
              UNSPOOL_ADD_ROWS(UNSPOOL_ADD)
          : UNSPOOL_SUMS
          : UNSPOOL_OPERANDS, [wsum] "i"(offsetof(ActGroup, wsum32)), [min] "v"(min)
          : UNSPOOL_CHANGED);
    } else {
      asm(UNSPOOL_UNPACK(0) UNSPOOL_DOTS_OF_GROUP(UNSPOOL_FROM_MINUS) UNSPOOL_ADD_ROWS(UNSPOOL_ADD)
          : UNSPOOL_SUMS
          : UNSPOOL_OPERANDS, [minus] "i"(offsetof(ActGroup, minus)), [zero_bits] "v"(zero_bits)
          : UNSPOOL_CHANGED);
    }
    group += 256;
    if ((g + 1) % Groups::value == 0) group += QuantsAt::value;
  }
  UNSPOOL_TOGETHER(acc);
}

// The same for a kind that multiplies sums, and inputs whose scales are powers of two.
template <class Groups, class QuantsAt, class Scales>
static inline void add_eight_shifted(Groups, QuantsAt, const uint8_t* group, int n_groups, Scales& scales,
                                     Asking asking, size_t ahead, const ActGroup* x, F acc[8]) {
  alignas(64) float room[Groups::value * kTile];
  UNSPOOL_APART(acc);
  for (int number = 0; number < n_groups / Groups::value; ++number) {
    scales.turn_to(number);
    const float* scale = scales.scales_of(number, room);
    const uint8_t* next = asking.take(Groups::value, ahead);
    int left = Groups::value;
    asm(UNSPOOL_UNPACK(0)
        "jmp 2f\n\t"
        ".p2align 5\n"
        "1:\n\t"                                      //
        UNSPOOL_UNPACK(0)                              //
        UNSPOOL_ADD_ROWS(UNSPOOL_ADD_SHIFTED)          //
        "2:\n\t"                                      //
        UNSPOOL_DOTS_OF_GROUP(UNSPOOL_FROM_ZERO)       //
        UNSPOOL_ASK(0) UNSPOOL_ASK(64) UNSPOOL_ASK(128) UNSPOOL_ASK(192) UNSPOOL_ASK(256)
        "add %[ahead], %[next]\n\t"
        "add $256, %[group]\n\t"
        "add $512, %[x]\n\t"
        "add $64, %[scale]\n\t"
        "dec %[left]\n\t"
        "jnz 1b\n\t"                                  //
        UNSPOOL_ADD_ROWS(UNSPOOL_ADD_SHIFTED)
        : UNSPOOL_SUMS, [group] "+r"(group), [x] "+r"(x), [scale] "+r"(scale), [next] "+r"(next),
          [left] "+r"(left)
        : [ahead] "r"(ahead), [low] "m"(kMasks), [shift] "i"(offsetof(ActGroup, shift))
        : UNSPOOL_CHANGED, "memory", "cc");
    group += QuantsAt::value;
  }
  UNSPOOL_TOGETHER(acc);
}

// The same for 6-bit weights with a scale for each half of a group.
template <class Groups, class QuantsAt, class Scales>
static inline void add_eight_sixes(Groups, QuantsAt, const uint8_t* group, int n_groups, Scales& scales,
                                   Asking asking, size_t ahead, const ActGroup* x, F acc[8]) {
  alignas(64) float room[2 * Groups::value * kTile];
  UNSPOOL_APART(acc);
  for (int number = 0; number < n_groups / Groups::value; ++number) {
    const float* scale = scales.scales_of(number, room);
    const uint8_t* next = asking.take(Groups::value, ahead);
    int left = Groups::value;
    asm(UNSPOOL_UNPACK_SIX(0)
        "jmp 2f\n\t"
        ".p2align 5\n"
        "1:\n\t"                  //
        UNSPOOL_UNPACK_SIX(0)      //
        UNSPOOL_ADD_SECOND_BEFORE  //
        "2:\n\t"                  //
        UNSPOOL_DOTS_OF_FIRST      //
        UNSPOOL_UNPACK_SIX(1)      //
        UNSPOOL_ADD_FIRST          //
        UNSPOOL_DOTS_OF_SECOND     //
        UNSPOOL_ASK(0) UNSPOOL_ASK(64) UNSPOOL_ASK(128) UNSPOOL_ASK(192) UNSPOOL_ASK(256) UNSPOOL_ASK(320)
            UNSPOOL_ASK(384)
        "add %[ahead], %[next]\n\t"
        "add $384, %[group]\n\t"
        "add $512, %[x]\n\t"
        "add $128, %[scale]\n\t"
        "dec %[left]\n\t"
        "jnz 1b\n\t"  //
        UNSPOOL_ADD_SECOND_BEFORE
        : UNSPOOL_SUMS, [group] "+r"(group), [x] "+r"(x), [scale] "+r"(scale), [next] "+r"(next),
          [left] "+r"(left)
        : [ahead] "r"(ahead), [low] "m"(kMasks), [shift] "i"(offsetof(ActGroup, shift)),
          [minus] "i"(offsetof(ActGroup, minus))
        : UNSPOOL_CHANGED, "xmm28", "xmm29", "memory", "cc");
    group += QuantsAt::value;
  }
  UNSPOOL_TOGETHER(acc);
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
