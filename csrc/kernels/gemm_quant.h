// Integer matrix product: weights of 2 to 8 bits by 8-bit activations.
//
// For one output and one group of inputs, with w = s (q - z) or s q + m, and x = a xq in each half h:
//   sum w x = s sum_h a (sum q xq - z sum xq)    or    s sum_h a sum q xq + m (sum_h a sum xq)
// Where both halves have the same a their sums are one. With a in units of the row, an integer of 15 bits,
// and sums over 16 weights of 4 bits, which take 16, the sum over both halves is an integer of 32 bits. Where
// each a is a power of two, shifts take the place of multiplications, which are what there is least of. Where
// the m of 256 inputs are integers times one number, the sums they meet are rounded to 16 bits, so that two
// of these products cost one. The integer sums are exact; groups are added in ascending order by one chain of
// fused multiply-adds per output. So a result does not depend on the rows computed beside it.
#pragma once
#include <type_traits>

namespace unspool {
namespace UNSPOOL_ISA {

// Of the rows of a tile.
struct Inputs {
  const float* units;
  const SumPair* sums;
  const float* sum_units;
};

template <Store STORE, int NR>
static inline void dot_rows(W quad, const ActGroup* x, int at, I dots[NR]) {
  constexpr bool kEightBits = STORE == Store::kU8 || STORE == Store::kIq4;
  for (int r = 0; r < NR; ++r) {
    const I broadcast = i_quad(x[r].q + at);
    dots[r] = kEightBits ? i_dot8(dots[r], quad, broadcast) : i_dot7(dots[r], quad, broadcast);
  }
}

template <Store STORE, int PAIR, int NR>
static inline void dot_pair(const uint8_t* group, const ActGroup* x, I dots[NR]) {
  W first, second;
  unpack_pair<STORE, PAIR>(group, &first, &second);
  dot_rows<STORE, NR>(first, x, 8 * PAIR, dots);
  dot_rows<STORE, NR>(second, x, 8 * PAIR + 4, dots);
}

// Adds the products of half `part` of a group to dots.
template <Store STORE, int NR>
static inline void dot_half(const uint8_t* group, const ActGroup* x, int part, I dots[NR]) {
  if (part == 0) {
    dot_pair<STORE, 0, NR>(group, x, dots);
    dot_pair<STORE, 1, NR>(group, x, dots);
  } else {
    dot_pair<STORE, 2, NR>(group, x, dots);
    dot_pair<STORE, 3, NR>(group, x, dots);
  }
}

// One tile by NR rows; what is asked for meanwhile comes with every group. Where this function lies among
// other code decides how well compilers do: see UNSPOOL_TILES in the simd headers.
template <Store STORE, int GROUP, bool TWO_LEVEL, bool MIN, bool SHIFTS, int NR, class Scales>
UNSPOOL_TILES static void quant_tile(const Packed& w, const uint8_t* tile, const float* ready,
                                     const ActGroup* x, const Inputs& inputs, Rows out, int row, int t,
                                     const float* bias, bool accumulate, Asking asking) {
  constexpr bool kInteger = STORE == Store::kU4 && GROUP == 32;   // the sum over both halves
  constexpr bool kWhole = TWO_LEVEL && GROUP == 32 && !kInteger;  // as w.whole_groups()
  constexpr bool kPairs = TWO_LEVEL && GROUP == 32 && MIN;        // as w.multiplies_sums()
  constexpr int kLines = bits_of(STORE);                          // of 64 bytes, quants of a group
  const int n_groups = w.k_padded / kGroup;
  const I zero_bits = i_set1(w.zero_bits);
  constexpr Piece kPiece = piece_of(STORE, GROUP, TWO_LEVEL, MIN);
  Scales scales(tile, ready);
  const uint8_t* group = tile + kPiece.quants_at;
  F acc[NR], mins[NR];  // of groups, and where kPairs what pieces add to them
  for (int r = 0; r < NR; ++r) acc[r] = mins[r] = f_zero();
  const SumPair* sums = inputs.sums;
  const size_t ahead = w.tile_bytes / n_groups;
  constexpr bool kSixes = STORE == Store::kU6 && SHIFTS;
  constexpr bool kByHand = (kInteger || kSixes) && NR == 8 && kHasEightRows;
  constexpr std::integral_constant<int, kPiece.groups> kGroups;
  constexpr std::integral_constant<size_t, kPiece.quants_at> kQuantsAt;
  if constexpr (kByHand && kPairs)  // apart, where the processor finds more to do at once
    for (int number = 0; number < n_groups / kPiece.groups; ++number, sums += PieceMins::kPairs * NR) {
      scales.turn_to(number);
      add_mins<NR>(scales.mins(number), sums, mins);
    }
  if constexpr (kByHand && kSixes)
    add_eight_sixes(kGroups, kQuantsAt, group, n_groups, scales, asking, ahead, x, acc);
  else if constexpr (kByHand && SHIFTS)
    add_eight_shifted(kGroups, kQuantsAt, group, n_groups, scales, asking, ahead, x, acc);
  else if constexpr (kByHand)
    add_eight_rows(std::bool_constant<kPairs>(), kGroups, kQuantsAt, group, n_groups, scales, asking, ahead,
                   x, zero_bits, acc);
  for (int g = 0; !kByHand && g < n_groups; ++g, x += NR) {
    asking.go_on<kLines + 1>(ahead);
    if (TWO_LEVEL && g % kPiece.groups == 0) {
      scales.turn_to(g / kPiece.groups);
      if constexpr (kPairs) {
        add_mins<NR>(scales.mins(g / kPiece.groups), sums, mins);
        sums += PieceMins::kPairs * NR;
      }
    }
    F scaled[NR];  // a sum q xq of the scale's inputs so far
    I dots[NR], dots0[NR];
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      for (int r = 0; r < NR; ++r) {
        const I start = MIN ? i_set1(0) : i_shift_left(i_set1(x[r].minus[half]), zero_bits);
        if (!kWhole || half == 0)
          dots[r] = start;
        else if (!MIN)
          dots[r] = i_add(dots[r], start);
      }
      dot_half<STORE, NR>(group, x, half, dots);
      if (kWhole && half == 0) continue;
      for (int r = 0; r < NR; ++r) {
        if (kInteger) {
          if (half == 0)
            dots0[r] = dots[r];
          else
            scaled[r] = f_from_i(i_dot2(dots0[r], dots[r], x[r].times));
          continue;
        }
        if (SHIFTS && GROUP == 16) {
          scaled[r] = f_from_i(i_shift_left(dots[r], i_set1(x[r].shift[half])));
          continue;
        }
        const F a = f_set1(x[r].scale[half]);
        const F dot = f_from_i(dots[r]);
        scaled[r] = kWhole || GROUP == 16 || half == 0 ? f_mul(dot, a) : f_fma(dot, a, scaled[r]);
      }
      if (GROUP == 32 && half == 0) continue;
      const int index = GROUP == 32 ? g : 2 * g + half;
      const F scale = scales.scale(index);
      if (MIN && !kPairs) {  // first, as this needs no sum that was just begun
        const F min = scales.min(index);
        for (int r = 0; r < NR; ++r)
          acc[r] = f_fma(min, f_set1(GROUP == 32 ? x[r].wsum32 : x[r].wsum16[half]), acc[r]);
      }
      for (int r = 0; r < NR; ++r) acc[r] = f_fma(scaled[r], scale, acc[r]);
    }
    group += kLines * 64;
    if ((g + 1) % kPiece.groups == 0) group += kPiece.quants_at;
  }
  for (int r = 0; r < NR; ++r) {
    float* to = out.row(row + r) + t * kTile;
    if (kPairs) acc[r] = f_fma(mins[r], f_set1(inputs.sum_units[r]), acc[r]);
    F value = f_mul(acc[r], f_set1(inputs.units[r]));
    if (bias) value = f_add(value, f_load(bias + t * kTile));
    if (accumulate) value = f_add(f_load(to), value);
    f_store(to, value);
  }
}

// Tiles in blocks that all rows pass over. Two, this one and the next, stay in the second-level cache.
constexpr size_t kBlockBytes = 256 * 1024;

// Weights are asked for two tiles ahead, because the hardware prefetcher stops at a page's end, or one where
// that is so far. Few rows read as fast as memory gives, and the prefetcher follows them within a page: for
// them the next page has to be begun in time, and what is asked for earlier is in its way.
constexpr size_t kFarBytes = 16 * 1024, kNearBytes = 7 * 1024;
constexpr int kFewRows = 2;

// Of so many bytes in a row the prefetcher keeps up by itself: few rows ask for what comes after them alone.
// Not in two-level kinds, whose many instructions for a line make it fall behind.
constexpr size_t kFollowedBytes = 256 * 1024;

// Of so many rows on, the scales of two-level kinds are computed once for all.
constexpr int kManyRows = 2 * Acts::kBlock;

template <Store STORE, int GROUP, bool TWO_LEVEL, bool MIN, bool SHIFTS>
static void quant_rows(const Packed& w, int tile0, int tile1, const Acts& x, Rows out, const float* bias,
                       bool accumulate, float* scratch, const Fetch& fetch) {
  using FromTile = PackedScales<STORE, GROUP, TWO_LEVEL, MIN>;
  using Ready = ReadyScales<FromTile, (TWO_LEVEL && GROUP == 32 && MIN)>;
  const int n_pieces = w.k_padded / kSuper, n_floats = n_pieces * Ready::kFloats;  // of a tile
  const bool ready = TWO_LEVEL && x.n_rows >= kManyRows && n_floats <= kGemmScratch;
  int block = (int)(kBlockBytes / w.tile_bytes);
  if (ready && block > kGemmScratch / n_floats) block = kGemmScratch / n_floats;
  if (block < 1) block = 1;
  const size_t lead_bytes =
      x.n_rows <= kFewRows ? kNearBytes : w.tile_bytes * (w.tile_bytes < kFarBytes ? 2 : 1);
  const bool followed =
      !TWO_LEVEL && x.n_rows <= kFewRows && (size_t)(tile1 - tile0) * w.tile_bytes >= kFollowedBytes;
  const int beside_each = x.n_rows > Acts::kBlock ? Fetch::kBesideBytesOfMore : Fetch::kBesideBytes;
  const size_t beside_bytes = (size_t)beside_each * (w.k_padded / kGroup);
  const int n_more = (x.n_rows - 1) / Acts::kBlock;  // blocks of rows after the first
  const auto take = [&fetch](size_t bytes) { return fetch.take ? fetch.take(fetch.from, bytes) : nullptr; };
  for (int first = tile0; first < tile1; first += block) {
    const int last = first + block < tile1 ? first + block : tile1;
    // The first eight rows ask for weights as they read them; all others together ask for the block after
    // this.
    const uint8_t* const following = !fetch.then ? nullptr : last < tile1 ? w.tile(last) : fetch.then;
    if (ready)
      for (int t = first; t < last; ++t)
        Ready::compute(w.tile(t), n_pieces, scratch + (t - first) * n_floats);
    for (int row = 0; row < x.n_rows; row += Acts::kBlock) {
      int rows;
      const ActGroup* group = x.row(row, &rows);
      const Inputs inputs = {x.units + row, x.sums_of(row), x.sum_units + row};
      for (int t = first; t < last; ++t) {
        const uint8_t* tile = w.tile(t);
        Asking asking;
        asking.beside_bytes = beside_each;
        if (followed) {
          if (t + 1 == tile1) asking.next = fetch.then;
        } else if (row == 0) {
          asking.next = tile + lead_bytes;
          if (fetch.then)
            asking.turn(fetch.end, fetch.then);
          else if (asking.next >= fetch.end)
            asking.next = nullptr;
        } else if (following && (t - first) % n_more == row / Acts::kBlock - 1) {
          asking.next = following + (t - first) * w.tile_bytes;
        }
        // K and V come beside weights, or in their place.
        if (asking.next)
          asking.beside = take(beside_bytes);
        else
          asking.next = take(w.tile_bytes);
        if (!asking.next && !followed) asking.next = tile;  // which is here: cheaper than not to ask
        if (TWO_LEVEL && ready && rows == Acts::kBlock) {
          quant_tile<STORE, GROUP, TWO_LEVEL, MIN, SHIFTS, Acts::kBlock, Ready>(
              w, tile, scratch + (t - first) * n_floats, group, inputs, out, row, t, bias, accumulate,
              asking);
          continue;
        }
        switch (rows) {
#define UNSPOOL_ROWS(NR)                                                                                 \
  case NR:                                                                                               \
    quant_tile<STORE, GROUP, TWO_LEVEL, MIN, SHIFTS, NR, FromTile>(w, tile, nullptr, group, inputs, out, \
                                                                   row, t, bias, accumulate, asking);    \
    break;
          UNSPOOL_ROWS(1)
          UNSPOOL_ROWS(2)
          UNSPOOL_ROWS(3)
          UNSPOOL_ROWS(4)
          UNSPOOL_ROWS(5)
          UNSPOOL_ROWS(6)
          UNSPOOL_ROWS(7)
          UNSPOOL_ROWS(8)
#undef UNSPOOL_ROWS
        }
      }
    }
  }
}

static void gemm_quant(const Packed& w, int tile0, int tile1, const Acts& x, Rows out, const float* bias,
                       bool accumulate, float* scratch, const Fetch& fetch) {
// Of two of a kind the first is for inputs with scales that are powers of two; the other takes any.
#define UNSPOOL_KIND(STORE, GROUP, TWO, MIN, SHIFTS)                                                  \
  if (w.store == Store::STORE && w.group == GROUP && w.two_level == TWO && w.has_min == MIN &&        \
      (x.shifts || !SHIFTS))                                                                          \
  return quant_rows<Store::STORE, GROUP, TWO, MIN, SHIFTS>(w, tile0, tile1, x, out, bias, accumulate, \
                                                           scratch, fetch)
  UNSPOOL_KIND(kU4, 32, false, false, false);   // Q4_0
  UNSPOOL_KIND(kU4, 32, false, true, false);    // Q4_1
  UNSPOOL_KIND(kU4, 32, true, true, true);      // Q4_K
  UNSPOOL_KIND(kU4, 32, true, true, false);     // Q4_K beside Q2_K, Q5_K or IQ4_XS
  UNSPOOL_KIND(kU2, 16, true, true, false);     // Q2_K
  UNSPOOL_KIND(kU3, 16, true, false, false);    // Q3_K
  UNSPOOL_KIND(kU5, 32, false, false, false);   // Q5_0
  UNSPOOL_KIND(kU5, 32, false, true, false);    // Q5_1
  UNSPOOL_KIND(kU5, 32, true, true, false);     // Q5_K
  UNSPOOL_KIND(kU6, 16, true, false, true);     // Q6_K beside Q4_K
  UNSPOOL_KIND(kU6, 16, true, false, false);    // Q6_K
  UNSPOOL_KIND(kU8, 32, false, false, false);   // Q8_0
  UNSPOOL_KIND(kIq4, 32, false, false, false);  // IQ4_NL
  UNSPOOL_KIND(kIq4, 32, true, false, false);   // IQ4_XS
#undef UNSPOOL_KIND
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
