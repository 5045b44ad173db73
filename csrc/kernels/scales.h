// Scales and mins of a tile's groups, for the integer product.
#pragma once

namespace unspool {
namespace UNSPOOL_ISA {

// Scales and mins of a tile as they lie in memory, by the number of their group of GROUP inputs: of each
// group the scale, then the min, from the first group on. turn_to() comes before those of a piece.
template <Store STORE, int GROUP, bool TWO_LEVEL, bool MIN>
struct PackedScales {
  static constexpr bool kMin = MIN;
  static constexpr Piece kPiece = piece_of(STORE, GROUP, TWO_LEVEL, MIN);
  static constexpr int kGroups = kPiece.groups * kGroup / GROUP;  // of a piece
  static constexpr bool kSixes = TWO_LEVEL && subs_of(STORE) == Subs::kSixes;
  const uint8_t* tile;
  // of an upper scale
  alignas(64) uint8_t subs[kSixes ? kGroups * kTile : 1];
  alignas(64) uint8_t submins[kSixes ? kGroups * kTile : 1];

  explicit PackedScales(const uint8_t* tile, const float* = nullptr) : tile(tile) {}

  // Numbers of six bits become bytes, those of eight groups.
  void turn_to(int number) {
    if (!kSixes) return;
    const uint8_t* const at = tile + (size_t)number * kPiece.bytes;
    const uint8_t* const lows = at + kPiece.sub_at;
    const W first = w_load(lows), second = w_load(lows + kTopBytes), top = w_load(at + kPiece.top_at);
    w_store(subs, w_or_bits<0, 4, 2>(w_low(first), top));
    w_store(submins, w_or_bits<2, 4, 2>(w_high(first), top));
    w_store(subs + kTopBytes, w_or_bits<4, 4, 2>(w_low(second), top));
    w_store(submins + kTopBytes, w_or_bits<6, 4, 2>(w_high(second), top));
  }
  F scale(int index) {
    const uint8_t* at = piece(index);
    if (!TWO_LEVEL) return f_load_f16((const uint16_t*)at + index % kGroups * kTile);
    const F d = f_load_f16((const uint16_t*)at);
    if (kSixes) return f_mul(d, f_load_u8(subs + index % kGroups * kTile));
    const uint8_t* sub = at + kPiece.sub_at + index % kGroups * kTile;
    return f_mul(d, subs_of(STORE) == Subs::kFours ? f_load_low4(sub) : f_load_i8(sub));
  }
  F min(int index) {
    const uint8_t* at = piece(index);
    if (!TWO_LEVEL) return f_load_f16((const uint16_t*)(at + kPiece.min_at) + index % kGroups * kTile);
    const F dmin = f_load_f16((const uint16_t*)(at + kPiece.min_at));
    return f_mul(dmin, f_load_high4(at + kPiece.sub_at + index % kGroups * kTile));
  }
  // Those of all groups of a piece in a row, for which there may be need of room.
  const float* scales_of(int number, float* room) {
    for (int i = 0; i < kGroups; ++i) f_store(room + i * kTile, scale(number * kGroups + i));
    return room;
  }
  PieceMins mins(int number) const {
    PieceMins mins;
    mins.upper = f_load_f16((const uint16_t*)(tile + (size_t)number * kPiece.bytes + kPiece.min_at));
    for (int p = 0; p < PieceMins::kPairs; ++p) {
      const uint8_t* const two = submins + 2 * p * kTile;
      mins.pairs[p] = i_pairs(i_load_u8(two), i_load_u8(two + kTile));
    }
    return mins;
  }

 private:
  const uint8_t* piece(int index) const { return tile + (size_t)(index / kGroups) * kPiece.bytes; }
};

// The same of a two-level kind, computed once for many rows: of each piece scales, or scales and mins in
// turn, of all its groups, and after them what PieceMins has.
template <class FromTile, bool PAIRS>
struct ReadyScales {
  static constexpr bool kMin = FromTile::kMin;
  static constexpr int kOfGroup = kMin && !PAIRS ? 2 * kTile : kTile,
                       kOfGroups = FromTile::kGroups * kOfGroup;
  static constexpr int kFloats = kOfGroups + (PAIRS ? (1 + PieceMins::kPairs) * kTile : 0);  // of a piece
  const float* floats;

  ReadyScales(const uint8_t*, const float* floats) : floats(floats) {}

  static void compute(const uint8_t* tile, int n_pieces, float* to) {
    FromTile scales(tile);
    for (int number = 0; number < n_pieces; ++number, to += kFloats) {
      scales.turn_to(number);
      for (int i = 0; i < FromTile::kGroups; ++i) {
        const int index = number * FromTile::kGroups + i;
        f_store(to + i * kOfGroup, scales.scale(index));
        if (kMin && !PAIRS) f_store(to + i * kOfGroup + kTile, scales.min(index));
      }
      if (!PAIRS) continue;
      const PieceMins mins = scales.mins(number);
      f_store(to + kOfGroups, mins.upper);
      for (int p = 0; p < PieceMins::kPairs; ++p) i_store(pair(to, p), mins.pairs[p]);
    }
  }

  void turn_to(int) {}
  const float* scales_of(int number, float*) const { return floats + number * kFloats; }
  F scale(int index) const { return f_load(group(index)); }
  F min(int index) const { return f_load(group(index) + kTile); }
  PieceMins mins(int number) const {
    const float* const from = floats + number * kFloats;
    PieceMins mins;
    mins.upper = f_load(from + kOfGroups);
    for (int p = 0; p < PieceMins::kPairs; ++p) mins.pairs[p] = i_load(pair(const_cast<float*>(from), p));
    return mins;
  }

 private:
  const float* group(int index) const {
    return floats + index / FromTile::kGroups * kFloats + index % FromTile::kGroups * kOfGroup;
  }
  static int32_t* pair(float* piece, int p) {
    return reinterpret_cast<int32_t*>(piece + kOfGroups + (1 + p) * kTile);
  }
};

}  // namespace UNSPOOL_ISA
}  // namespace unspool
