// Quants of a packed tile to bytes, in registers.
//
// The 32 inputs of a group make eight registers, number j holding inputs 4 j to 4 j + 3 of 16 outputs. What
// lies in memory are planes of 64 bytes, each byte with some bits of the same byte of several registers:
//   4 bits: plane i has registers 2 i and 2 i + 1, low half first
//   2 bits: plane i has registers 4 i to 4 i + 3, lowest first
//   1 bit:  one plane has all eight, lowest first
// Kinds of 3, 5 and 6 bits are a wider plane and a narrower one with the upper bits.
#pragma once

namespace unspool {
namespace UNSPOOL_ISA {

// Registers 2 PAIR and 2 PAIR + 1 of the group.
template <Store STORE, int PAIR>
static inline void unpack_pair(const uint8_t* group, W* first, W* second) {
  constexpr int kBits = bits_of(STORE);
  constexpr int kInTwos = 4 * (PAIR % 2);  // bit of a 2-bit plane at which the pair begins
  if (kBits == 8) {
    *first = w_load(group + 128 * PAIR);
    *second = w_load(group + 128 * PAIR + 64);
  } else if (kBits >= 4) {
    const W both = w_load(group + 64 * PAIR);
    *first = w_low(both);
    *second = w_high(both);
    if (STORE == Store::kIq4) {
      *first = w_iq4(*first);
      *second = w_iq4(*second);
    }
  } else {
    const W twos = w_load(group + 64 * (PAIR / 2));
    *first = w_bits<kInTwos, 0, 2>(twos);
    *second = w_bits<kInTwos + 2, 0, 2>(twos);
  }
  if (kBits == 6) {
    const W twos = w_load(group + 256 + 64 * (PAIR / 2));
    *first = w_or_bits<kInTwos, 4, 2>(*first, twos);
    *second = w_or_bits<kInTwos + 2, 4, 2>(*second, twos);
  } else if (kBits == 5 || kBits == 3) {
    const W ones = w_load(group + (kBits == 5 ? 256 : 128));
    *first = w_or_bits<2 * PAIR, kBits - 1, 1>(*first, ones);
    *second = w_or_bits<2 * PAIR + 1, kBits - 1, 1>(*second, ones);
  }
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
