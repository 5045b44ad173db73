// Weight matrices in the native layout: 16 output rows interleaved, so that one 512-bit register holds
// 4 input bytes of 16 outputs.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace unspool {

constexpr int kTile = 16;             // output rows interleaved in a tile
constexpr int kGroup = 32;            // inputs of a weight group; widths are padded to it
constexpr int kSuper = 256;           // inputs that share the upper scale of a two-level kind
constexpr int kTopBytes = 4 * kTile;  // upper bits of eight groups' numbers of six: see Subs

// Quants of so many bits, 4-bit numbers of the values of IQ4, or floats.
enum class Store : uint8_t { kU2, kU3, kU4, kU5, kU6, kU8, kIq4, kF32, kF16, kBF16 };

// Of a quant; 0 for floats.
constexpr int bits_of(Store store) {
  switch (store) {
    case Store::kU2:
      return 2;
    case Store::kU3:
      return 3;
    case Store::kU4:
    case Store::kIq4:
      return 4;
    case Store::kU5:
      return 5;
    case Store::kU6:
      return 6;
    case Store::kU8:
      return 8;
    default:
      return 0;
  }
}

// Of the quants of a group: 4 bits of each, then 1 or 2; of 8 and of 2 bits all at once. unpack.h has the
// order within.
constexpr size_t group_bytes(Store store) {
  return (size_t)bits_of(store) * kGroup * kTile / 8;
}

// How sub and submin of two-level kinds lie in memory.
enum class Subs : uint8_t {
  kBytes,  // sub is a signed byte; there is no submin
  kFours,  // 4 bits each: the low and the high half of a byte
  kSixes,  // 6 bits each: so the lower 4 of both, and the upper 2 of both in half a byte
};
constexpr Subs subs_of(Store store) {
  return store == Store::kU2                          ? Subs::kFours
         : store == Store::kU4 || store == Store::kU5 ? Subs::kSixes
                                                      : Subs::kBytes;
}

// What a quant of IQ4 stands for, plus 128.
constexpr uint8_t kIq4Levels[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

// Some groups of a tile as they lie in memory: what scales them, from the first byte on, and after it their
// quants. So a tile, and what a thread reads of a matrix, is one ascending stream, which processors follow by
// themselves: scales at the end of a tile were a second one, and each tile began both anew.
//
// Of a flat kind with mins it is one group, of other flat kinds two, for lines of the cache to be whole:
// scales, then mins, [group][16]. Of a two-level kind the groups of an upper scale: d and dmin, [16] each,
// subs, [group][16], and tops, [4][16], a byte for group j and group j + 4 of the eight, in its lower and
// upper half: two bits of sub, then two of submin.
struct Piece {
  int groups;                     // of kGroup inputs
  size_t min_at, sub_at, top_at;  // byte offsets
  size_t quants_at, bytes;        // multiples of a line
};
constexpr Piece piece_of(Store store, int group, bool two_level, bool has_min) {
  constexpr size_t kLine = 64, kHalves = 2 * kTile;  // bytes
  const int groups = two_level ? kSuper / kGroup : has_min ? 1 : 2;
  const size_t min_at = (two_level ? 1 : groups) * kHalves, sub_at = min_at + (has_min ? kHalves : 0);
  const size_t top_at = sub_at + (two_level ? kSuper / group * kTile : 0);
  const bool has_tops = two_level && subs_of(store) == Subs::kSixes;
  const size_t quants_at = (top_at + (has_tops ? kTopBytes : 0) + kLine - 1) / kLine * kLine;
  return {groups, min_at, sub_at, top_at, quants_at, quants_at + groups * group_bytes(store)};
}

// w = scale * (q - zero), or scale * q + min when has_min.
// Flat kinds: scale and min are float16, one per output row and group.
// Two-level kinds: scale = d * sub, min = dmin * submin, with d and dmin float16 per 256 inputs, sub and
// submin per group (subs_of says how they lie). dmin is stored negated.
struct Packed {
  Store store = Store::kF32;
  int group = kGroup;  // inputs per weight scale, 16 or 32
  bool two_level = false;
  bool has_min = false;
  int zero = 0;       // a power of two unless has_min
  int zero_bits = 0;  // its logarithm

  int n = 0;         // outputs
  int k = 0;         // inputs
  int k_padded = 0;  // inputs rounded up to 32; the padding holds zeros
  int n_tiles = 0;   // outputs / 16, rounded up; the padding rows hold zeros

  // One tile is contiguous: pieces, of which the last may have fewer groups, or floats, [input][16]; those
  // in bfloat16 [pair of inputs][16][2], the last one filled up with zeros.
  size_t tile_bytes = 0;
  uint8_t* data = nullptr;  // n_tiles * tile_bytes, 64-byte aligned
  size_t data_bytes = 0;

  const uint8_t* tile(int t) const { return data + (size_t)t * tile_bytes; }
  bool quantized() const { return bits_of(store) != 0; }
  bool reads_halves() const { return store == Store::kBF16; }
  Piece piece() const { return piece_of(store, group, two_level, has_min); }
  // Kinds whose kernel takes inputs with one scale for all 32 of a group.
  bool whole_groups() const { return two_level && group == kGroup && store != Store::kU4; }
  // Kinds that take inputs with powers of two as scales.
  bool shifts() const { return two_level && group == kGroup && store == Store::kU4; }
  // Kinds that read wsum16 of their inputs.
  bool adds_half_sums() const { return has_min && group != kGroup; }
  // Kinds whose mins are integers times one number for an upper scale: they meet sums in 16 bits.
  bool multiplies_sums() const { return has_min && group == kGroup && two_level; }
};

// 32 inputs of one row, quantized to 8 bits with a scale for every 16: half a weight group, because one
// outlier coarsens all that share its scale. Scales are whole multiples, 1 to 32767, of one unit of the row,
// which products are multiplied by in the end: so 4-bit weights are summed over both halves in integers.
// Two-level kinds with groups of 32 were made for inputs with a scale per 256. So what those of more than 4
// bits read has one scale for the group, and what those of 4 bits read has powers of two as scales: there a
// product costs less. One line of the cache.
struct alignas(64) ActGroup {
  int8_t q[32];
  float scale[2];    // of each half: whole multiples of the unit
  int32_t minus[2];  // -sum of q of each half
  union {
    float wsum16[2];   // scale * sum of q of each half
    int32_t shift[2];  // where Acts::shifts: logarithm of scale
  };
  int16_t times[2];  // scale as integers, at most 2^14 where Acts::shifts
  float wsum32;      // of both halves
};
static_assert(sizeof(ActGroup) == 64, "a line of the cache");
// simd/avx512_halves.h stores what follows the quants sixteen bytes at a time.
static_assert(offsetof(ActGroup, scale) == 32 && offsetof(ActGroup, minus) == 40 &&
                  offsetof(ActGroup, shift) == 48 && offsetof(ActGroup, times) == 56 &&
                  offsetof(ActGroup, wsum32) == 60,
              "in this order");

// What two neighbouring groups of a row add up to, scale * sum of q, in whole multiples of its sum_units of
// Acts.
struct SumPair {
  int16_t of[2];
};

// Activations of a linear layer: blocks of 8 rows, each [group][rows of the block], the last one narrower
// where rows are missing. So a kernel of up to 8 rows finds all by constant offsets from one pointer.
struct Acts {
  static constexpr int kBlock = 8;

  ActGroup* groups = nullptr;
  float* units = nullptr;  // of each row
  // Where has_sums: in blocks as groups are, [pair of groups][rows of the block], and of each row what they
  // are multiples of, a power of two.
  SumPair* sums = nullptr;
  float* sum_units = nullptr;
  int k_padded = 0;
  int n_rows = 0;
  bool whole_groups = false;  // the halves of a group have the same scale
  bool shifts = false;        // scales are powers of two
  bool has_sums = false;      // for kinds that multiply them

  Acts() = default;
  Acts(void* memory, int k_padded, int n_rows, bool whole_groups, bool shifts, bool has_sums)
      : groups((ActGroup*)memory),
        units((float*)(groups + (size_t)n_rows * (k_padded / kGroup))),
        sums((SumPair*)(units + n_rows)),
        sum_units((float*)(sums + (size_t)n_rows * n_pairs_of(k_padded))),
        k_padded(k_padded),
        n_rows(n_rows),
        whole_groups(whole_groups),
        shifts(shifts),
        has_sums(has_sums) {}
  static size_t bytes(size_t n_rows, size_t k_padded) {
    return n_rows * (k_padded / kGroup * sizeof(ActGroup) + n_pairs_of(k_padded) * sizeof(SumPair) +
                     2 * sizeof(float));
  }

  int n_groups() const { return k_padded / kGroup; }
  static size_t n_pairs_of(size_t k_padded) { return (k_padded / kGroup + 1) / 2; }
  size_t n_pairs() const { return n_pairs_of(k_padded); }
  // First group of row r; the next ones follow `step` apart.
  ActGroup* row(int r, int* step) const {
    const int first = r / kBlock * kBlock;
    *step = n_rows - first < kBlock ? n_rows - first : kBlock;
    return groups + (size_t)first * n_groups() + (r - first);
  }
  // Its first sums; the next ones follow as far apart.
  SumPair* sums_of(int r) const {
    const int first = r / kBlock * kBlock;
    return sums + first * n_pairs() + (r - first);
  }
  // Rows [first, last) of these: whole blocks, but for the last one of all.
  Acts rows(int first, int last) const {
    Acts some = *this;
    some.groups += (size_t)first * n_groups();
    some.units += first;
    some.sums += first * n_pairs();
    some.sum_units += first;
    some.n_rows = last - first;
    return some;
  }
};

// Float registers, one row per token; stride is a multiple of 32 and the padding holds zeros.
struct Rows {
  float* data = nullptr;
  size_t stride = 0;
  float* row(int r) const { return data + (size_t)r * stride; }
};

// The same rounded to bfloat16.
struct Halves {
  uint16_t* data = nullptr;
  size_t stride = 0;
  uint16_t* row(int r) const { return data + (size_t)r * stride; }
};

// What float matrices meet: weights in bfloat16 the halves, all others the floats.
struct FloatInputs {
  Rows floats;
  Halves halves;
};

}  // namespace unspool
