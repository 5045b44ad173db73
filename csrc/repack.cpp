#include "repack.h"

#include "blocks.h"

namespace unspool {

namespace {

struct Kind {
  Encoding encoding;
  Store store;
  int group;
  bool two_level, has_min;
  int zero;
  int block_values, block_bytes;
};

// One row per encoding: how it is stored natively, and the blocks of the file.
constexpr Kind kKinds[] = {
    {Encoding::kF32, Store::kF32, 32, false, false, 0, 1, 4},
    {Encoding::kF16, Store::kF16, 32, false, false, 0, 1, 2},
    {Encoding::kBF16, Store::kBF16, 32, false, false, 0, 1, 2},
    {Encoding::kQ4_0, Store::kU4, 32, false, false, 8, 32, 18},
    {Encoding::kQ4_1, Store::kU4, 32, false, true, 0, 32, 20},
    {Encoding::kQ5_0, Store::kU5, 32, false, false, 16, 32, 22},
    {Encoding::kQ5_1, Store::kU5, 32, false, true, 0, 32, 24},
    {Encoding::kQ8_0, Store::kU8, 32, false, false, 128, 32, 34},
    {Encoding::kIQ4_NL, Store::kIq4, 32, false, false, 128, 32, 18},
    {Encoding::kQ2_K, Store::kU2, 16, true, true, 0, 256, 84},
    {Encoding::kQ3_K, Store::kU3, 16, true, false, 4, 256, 110},
    {Encoding::kQ4_K, Store::kU4, 32, true, true, 0, 256, 144},
    {Encoding::kQ5_K, Store::kU5, 32, true, true, 0, 256, 176},
    {Encoding::kQ6_K, Store::kU6, 16, true, false, 32, 256, 210},
    {Encoding::kIQ4_XS, Store::kIq4, 32, true, false, 128, 256, 136},
};

constexpr const Kind* find_kind(Encoding encoding) {
  for (const Kind& kind : kKinds)
    if (kind.encoding == encoding) return &kind;
  return nullptr;
}

size_t round_up(size_t x, size_t to) {
  return (x + to - 1) / to * to;
}

int float_bytes(Store store) {
  return store == Store::kF32 ? 4 : 2;
}

constexpr int kPlane = 4 * kTile;  // bytes: 4 inputs of 16 outputs

// The quants of a group of all lanes, a byte each: [inputs 4 j to 4 j + 3][lane, input], in words of 8 bytes.
struct Quads {
  uint64_t words[8][kPlane / 8];

  void put(int lane, const uint8_t q[32]) {
    for (int j = 0; j < 8; ++j) memcpy((uint8_t*)words[j] + 4 * lane, q + 4 * j, 4);
  }
};

// Bits [FROM, FROM + N_BITS) of all quants, to planes of so many bits: see kernels/unpack.h.
template <int FROM, int N_BITS>
void put_planes(const Quads& quads, uint8_t* planes) {
  constexpr int kQuads = 8 / N_BITS;  // of a plane
  constexpr uint64_t kMask =
      0x0101010101010101u * ((1 << N_BITS) - 1);  // of every byte: no bit leaves its own
  for (int i = 0; i < N_BITS; ++i) {
    uint64_t plane[kPlane / 8] = {0};
    for (int j = 0; j < kQuads; ++j)
      for (int b = 0; b < kPlane / 8; ++b)
        plane[b] |= ((quads.words[kQuads * i + j][b] >> FROM) & kMask) << (N_BITS * j);
    memcpy(planes + kPlane * i, plane, kPlane);
  }
}

// How many of a quant's bits, the lowest, lie in the first planes, and how many in those after them.
struct Split {
  int low, high;
};

constexpr Split split_of(Store store) {
  const int bits = bits_of(store);
  if (bits == 3) return {2, 1};
  return bits == 5 || bits == 6 ? Split{4, bits - 4} : Split{bits, 0};
}

int get_bits(const uint8_t* planes, int n_bits, int lane, int i) {
  const int per_plane = 8 / n_bits, quad = i / 4;
  const uint8_t byte = planes[kPlane * (quad / per_plane) + 4 * lane + i % 4];
  return (byte >> (n_bits * (quad % per_plane))) & ((1 << n_bits) - 1);
}

int get_quant(const Packed& p, const uint8_t* group, int lane, int i) {
  const Split split = split_of(p.store);
  int q = get_bits(group, split.low, lane, i);
  if (split.high) q |= get_bits(group + kPlane * split.low, split.high, lane, i) << split.low;
  return p.store == Store::kIq4 ? kIq4Levels[q] : q;
}

// An exponent of all ones: infinity or not a number.
bool finite_f16(uint16_t x) {
  return (x & 0x7c00u) != 0x7c00u;
}

bool finite_float(Store store, const uint8_t* at) {
  if (store == Store::kF32) return (read_u32(at) & 0x7f800000u) != 0x7f800000u;
  const uint16_t x = read_u16(at);
  return store == Store::kF16 ? finite_f16(x) : (x & 0x7f80u) != 0x7f80u;
}

// Offset in its tile, in bytes, of input i of a lane.
size_t float_at(const Packed& p, int lane, int i) {
  const int pair = p.reads_halves() ? 2 : 1;
  return (size_t)float_bytes(p.store) * (pair * (i / pair * kTile + lane) + i % pair);
}

bool repack_float(const uint8_t* row, const Packed& p, int lane, uint8_t* tile) {
  const int bytes = float_bytes(p.store);
  bool finite = true;
  for (int i = 0; i < p.k; ++i) {
    const uint8_t* from = row + (size_t)i * bytes;
    memcpy(tile + float_at(p, lane, i), from, bytes);
    finite &= finite_float(p.store, from);
  }
  return finite;
}

// Of one tile. The kind is known to the compiler, for all of it is shifts and small loops.
template <Encoding ENCODING>
bool repack_quants(const uint8_t* rows, size_t stride, int n_rows, const Packed& p, uint8_t* tile) {
  constexpr Kind kKind = *find_kind(ENCODING);
  constexpr Split kSplit = split_of(kKind.store);
  constexpr int kParts = kGroup / kKind.group;
  constexpr Subs kSubs = subs_of(kKind.store);
  constexpr Piece kPiece = piece_of(kKind.store, kKind.group, kKind.two_level, kKind.has_min);
  const int n_groups = p.k / kGroup;
  Quads quads = {};
  bool finite = true;
  for (int j = 0; j < n_groups; ++j) {
    const int i = j % kPiece.groups;  // of the piece
    uint8_t* const piece = tile + j / kPiece.groups * kPiece.bytes;
    const int upper = kKind.two_level ? 0 : i * kTile;
    uint16_t* const scales = reinterpret_cast<uint16_t*>(piece) + upper;
    uint16_t* const mins = reinterpret_cast<uint16_t*>(piece + kPiece.min_at) + upper;
    uint8_t* const subs = piece + kPiece.sub_at + i * kParts * kTile;
    uint8_t* const tops = piece + kPiece.top_at + i % 4 * kTile;
    for (int lane = 0; lane < n_rows; ++lane) {
      Group group;
      read_group(ENCODING, rows + lane * stride, j, &group);
      quads.put(lane, group.q);
      scales[lane] = group.scale;
      finite &= finite_f16(group.scale);
      if (kKind.has_min) {
        mins[lane] = group.min;
        finite &= finite_f16(group.min);
      }
      for (int h = 0; kKind.two_level && h < kParts; ++h) {
        const int sub = group.sub[h], submin = group.submin[h];
        subs[h * kTile + lane] = (uint8_t)(kSubs == Subs::kBytes ? sub : (sub & 15) | (submin & 15) << 4);
        if (kSubs == Subs::kSixes) {
          const int bits = sub >> 4 | submin >> 4 << 2;
          tops[lane] = (uint8_t)(i < 4 ? bits : tops[lane] | bits << 4);
        }
      }
    }
    uint8_t* const planes = piece + kPiece.quants_at + i * group_bytes(kKind.store);
    put_planes<0, kSplit.low>(quads, planes);
    if constexpr (kSplit.high != 0) put_planes<kSplit.low, kSplit.high>(quads, planes + kPlane * kSplit.low);
  }
  return finite;
}

using Repack = bool (*)(const uint8_t*, size_t, int, const Packed&, uint8_t*);

Repack repack_of(Encoding encoding) {
  switch (encoding) {
#define UNSPOOL_ENCODING(NAME) \
  case Encoding::NAME:         \
    return repack_quants<Encoding::NAME>;
    UNSPOOL_ENCODING(kQ4_0)
    UNSPOOL_ENCODING(kQ4_1)
    UNSPOOL_ENCODING(kQ5_0)
    UNSPOOL_ENCODING(kQ5_1)
    UNSPOOL_ENCODING(kQ8_0)
    UNSPOOL_ENCODING(kIQ4_NL)
    UNSPOOL_ENCODING(kQ2_K)
    UNSPOOL_ENCODING(kQ3_K)
    UNSPOOL_ENCODING(kQ4_K)
    UNSPOOL_ENCODING(kQ5_K)
    UNSPOOL_ENCODING(kQ6_K)
    UNSPOOL_ENCODING(kIQ4_XS)
#undef UNSPOOL_ENCODING
    default:
      return nullptr;
  }
}

}  // namespace

bool plan_layout(Encoding encoding, int n, int k, Packed* p) {
  const Kind* kind = find_kind(encoding);
  if (!kind || n <= 0 || k <= 0 || k % kind->block_values) return false;
  *p = Packed();
  p->store = kind->store;
  p->group = kind->group;
  p->two_level = kind->two_level;
  p->has_min = kind->has_min;
  p->zero = kind->zero;
  while (1 << p->zero_bits < p->zero) ++p->zero_bits;
  p->n = n;
  p->k = k;
  p->k_padded = (int)round_up(k, kGroup);
  p->n_tiles = (int)round_up(n, kTile) / kTile;
  if (!p->quantized()) {
    p->tile_bytes = round_up((size_t)k * kTile * float_bytes(p->store), 64);  // whole pairs of halves, too
  } else {
    const Piece piece = p->piece();
    const int groups = p->k_padded / kGroup, rest = groups % piece.groups;
    p->tile_bytes = groups / piece.groups * piece.bytes;
    if (rest) p->tile_bytes += piece.quants_at + rest * group_bytes(p->store);
  }
  p->data_bytes = p->tile_bytes * (size_t)p->n_tiles;
  return true;
}

size_t row_bytes(Encoding encoding, int k) {
  const Kind* kind = find_kind(encoding);
  return kind ? (size_t)k / kind->block_values * kind->block_bytes : 0;
}

bool repack_tiles(Encoding encoding, const uint8_t* source, const Packed& p, int tile0, int tile1) {
  const size_t stride = row_bytes(encoding, p.k);
  const Repack repack = repack_of(encoding);
  bool finite = true;
  for (int t = tile0; t < tile1; ++t) {
    uint8_t* tile = p.data + (size_t)t * p.tile_bytes;
    const uint8_t* rows = source + (size_t)t * kTile * stride;
    const int n = p.n - t * kTile < kTile ? p.n - t * kTile : kTile;  // padding rows stay zero
    if (repack)
      finite &= repack(rows, stride, n, p, tile);
    else
      for (int lane = 0; lane < n; ++lane) finite &= repack_float(rows + lane * stride, p, lane, tile);
  }
  return finite;
}

void unpack_row(const Packed& p, int row, float* out) {
  const uint8_t* tile = p.tile(row / kTile);
  const int lane = row % kTile, parts = kGroup / p.group;
  if (!p.quantized()) {
    for (int i = 0; i < p.k; ++i) {
      const uint8_t* at = tile + float_at(p, lane, i);
      if (p.store == Store::kF32)
        memcpy(out + i, at, 4);
      else
        out[i] = p.store == Store::kF16 ? f16_to_f32(read_u16(at)) : bf16_to_f32(read_u16(at));
    }
    for (int i = p.k; i < p.k_padded; ++i) out[i] = 0.0f;
    return;
  }
  const Piece piece = p.piece();
  for (int i = 0; i < p.k_padded; ++i) {
    const int j = i / kGroup % piece.groups, part = j * parts + i % kGroup / p.group;
    const uint8_t* const at = tile + i / kGroup / piece.groups * piece.bytes;
    const int upper = 2 * ((p.two_level ? 0 : j) * kTile + lane);
    float scale = f16_to_f32(read_u16(at + upper));
    float min = p.has_min ? f16_to_f32(read_u16(at + piece.min_at + upper)) : 0.0f;
    if (p.two_level) {
      uint8_t sub = at[piece.sub_at + part * kTile + lane];
      uint8_t submin = 0;
      if (subs_of(p.store) != Subs::kBytes) {
        submin = sub >> 4;
        sub &= 15;
      }
      if (subs_of(p.store) == Subs::kSixes) {
        const uint8_t both = at[piece.top_at + j % 4 * kTile + lane];
        const int top = j < 4 ? both : both >> 4;
        sub |= (top & 3) << 4;
        submin |= (top >> 2 & 3) << 4;
      }
      scale *= subs_of(p.store) == Subs::kBytes ? (float)(int8_t)sub : (float)sub;
      min *= (float)submin;
    }
    const int q = get_quant(p, at + piece.quants_at + j * group_bytes(p.store), lane, i % kGroup);
    out[i] = scale * (float)(q - p.zero) + min;
  }
}

}  // namespace unspool
