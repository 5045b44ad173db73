// Scales and mins of a tile's groups, for the integer product.
#pragma once

namespace unspool {
namespace UNSPOOL_ISA {

// Scales and mins of a tile as they lie in memory, by the number of their group of GROUP inputs: of each
// group the scale, then the min, from the first group on.
template <Store STORE, int GROUP, bool TWO_LEVEL, bool MIN>
struct PackedScales {
  static constexpr bool kMin = MIN;
  static constexpr Piece kPiece = piece_of(STORE, GROUP, TWO_LEVEL, MIN);
  static constexpr int kGroups = kPiece.groups * kGroup / GROUP;  // of a piece
  static constexpr bool kSixes = TWO_LEVEL && subs_of(STORE) == Subs::kSixes;
  const uint8_t* tile;
  uint8_t subs[kSixes ? kGroups * kTile : 1], submins[kSixes ? kGroups * kTile : 1];  // of an upper scale

  explicit PackedScales(const uint8_t* tile, const float* = nullptr) : tile(tile) {}

  F scale(int index) {
    const uint8_t* at = piece(index);
    if (!TWO_LEVEL) return f_load_f16((const uint16_t*)at + index % kGroups * kTile);
    const F d = f_load_f16((const uint16_t*)at);
    const uint8_t* sub = at + kPiece.sub_at + index % kGroups * kTile;
    switch (subs_of(STORE)) {
      case Subs::kFours:
        return f_mul(d, f_load_low4(sub));
      case Subs::kSixes:
        if (index % kGroups == 0) spread(sub, at + kPiece.top_at);
        return f_mul(d, f_load_u8(subs + index % kGroups * kTile));
      default:
        return f_mul(d, f_load_i8(sub));
    }
  }
  F min(int index) {
    const uint8_t* at = piece(index);
    if (!TWO_LEVEL) return f_load_f16((const uint16_t*)(at + kPiece.min_at) + index % kGroups * kTile);
    const F dmin = f_load_f16((const uint16_t*)(at + kPiece.min_at));
    const uint8_t* sub = at + kPiece.sub_at + index % kGroups * kTile;
    if (subs_of(STORE) == Subs::kFours) return f_mul(dmin, f_load_high4(sub));
    return f_mul(dmin, f_load_u8(submins + index % kGroups * kTile));
  }

 private:
  const uint8_t* piece(int index) const { return tile + (size_t)(index / kGroups) * kPiece.bytes; }
  // Numbers of six bits to bytes, those of eight groups.
  void spread(const uint8_t* lows, const uint8_t* tops) {
    const W first = w_load(lows), second = w_load(lows + kTopBytes), top = w_load(tops);
    w_store(subs, w_or_bits<0, 4, 2>(w_low(first), top));
    w_store(submins, w_or_bits<2, 4, 2>(w_high(first), top));
    w_store(subs + kTopBytes, w_or_bits<4, 4, 2>(w_low(second), top));
    w_store(submins + kTopBytes, w_or_bits<6, 4, 2>(w_high(second), top));
  }
};

// The same as floats, computed once for many rows.
template <bool MIN>
struct ReadyScales {
  static constexpr bool kMin = MIN;
  static constexpr int kFloats = MIN ? 2 * kTile : kTile;  // of a group
  const float* floats;

  ReadyScales(const uint8_t*, const float* floats) : floats(floats) {}

  F scale(int index) const { return f_load(floats + index * kFloats); }
  F min(int index) const { return f_load(floats + index * kFloats + kTile); }
};

}  // namespace UNSPOOL_ISA
}  // namespace unspool
