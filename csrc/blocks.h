// One group of 32 values of each stored encoding, taken apart into quants and scales.
// Layouts are those of the GGUF format.
#pragma once
#include <stdint.h>
#include <string.h>

#include "half.h"
#include "repack.h"

namespace unspool {
namespace {

struct Group {
  uint8_t q[32];        // unsigned quants
  uint16_t scale, min;  // float16: of the group (flat) or of its 256 values (two-level)
  uint8_t sub[2];       // two-level: one per 32 or per 16 values
  uint8_t submin[2];
};

inline uint16_t read_u16(const uint8_t* p) {
  uint16_t x;
  memcpy(&x, p, 2);
  return x;
}

inline uint32_t read_u32(const uint8_t* p) {
  uint32_t x;
  memcpy(&x, p, 4);
  return x;
}

inline void nibbles(const uint8_t* p, uint8_t* q) {
  for (int i = 0; i < 16; ++i) {
    q[i] = p[i] & 15;
    q[i + 16] = p[i] >> 4;
  }
}

inline void fifth_bits(uint32_t bits, uint8_t* q) {
  // Eight at once: each byte of a word keeps its own of eight bits, and becomes 16 where that is set.
  for (int i = 0; i < 4; ++i) {
    const uint64_t own = ((bits >> (8 * i)) & 255) * 0x0101010101010101u & 0x8040201008040201u;
    const uint64_t set = ((own + 0x7f7f7f7f7f7f7f7fu) >> 7) & 0x0101010101010101u;
    uint64_t word;
    memcpy(&word, q + 8 * i, 8);
    word |= set << 4;
    memcpy(q + 8 * i, &word, 8);
  }
}

// Six-bit scales and mins of Q4_K and Q5_K: eight of each in twelve bytes.
inline void k_scales(const uint8_t* s, int j, uint8_t* scale, uint8_t* min) {
  if (j < 4) {
    *scale = s[j] & 63;
    *min = s[j + 4] & 63;
  } else {
    *scale = (s[j + 4] & 15) | ((s[j - 4] >> 6) << 4);
    *min = (s[j + 4] >> 4) | ((s[j] >> 6) << 4);
  }
}

inline void group_q2_k(const uint8_t* b, int j, Group* g) {
  const uint8_t *scales = b, *qs = b + 16 + 32 * (j / 4);
  g->scale = read_u16(b + 80);
  g->min = read_u16(b + 82) ^ 0x8000;
  for (int i = 0; i < 32; ++i) g->q[i] = (qs[i] >> (2 * (j % 4))) & 3;
  for (int h = 0; h < 2; ++h) {
    g->sub[h] = scales[2 * j + h] & 15;
    g->submin[h] = scales[2 * j + h] >> 4;
  }
}

inline void group_q3_k(const uint8_t* b, int j, Group* g) {
  const uint8_t *high = b, *qs = b + 32 + 32 * (j / 4), *s = b + 96;
  g->scale = read_u16(b + 108);
  for (int i = 0; i < 32; ++i) g->q[i] = ((qs[i] >> (2 * (j % 4))) & 3) | (((high[i] >> j) & 1) << 2);
  for (int h = 0; h < 2; ++h) {
    const int i = 2 * j + h;
    const int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
    const int top = (s[8 + i % 4] >> (2 * (i / 4))) & 3;
    g->sub[h] = (uint8_t)(int8_t)((low | (top << 4)) - 32);
  }
}

inline void group_q4_k(const uint8_t* b, int j, Group* g) {
  const uint8_t* qs = b + 16 + 32 * (j / 2);
  g->scale = read_u16(b);
  g->min = read_u16(b + 2) ^ 0x8000;
  k_scales(b + 4, j, &g->sub[0], &g->submin[0]);
  for (int i = 0; i < 32; ++i) g->q[i] = j % 2 ? qs[i] >> 4 : qs[i] & 15;
}

inline void group_q5_k(const uint8_t* b, int j, Group* g) {
  const uint8_t *high = b + 16, *qs = b + 48 + 32 * (j / 2);
  g->scale = read_u16(b);
  g->min = read_u16(b + 2) ^ 0x8000;
  k_scales(b + 4, j, &g->sub[0], &g->submin[0]);
  for (int i = 0; i < 32; ++i) g->q[i] = (j % 2 ? qs[i] >> 4 : qs[i] & 15) | (((high[i] >> j) & 1) << 4);
}

inline void group_q6_k(const uint8_t* b, int j, Group* g) {
  // Each half of 128 values: two rows of 32 low nibbles and one row of 32 bit pairs times four.
  const int half = j / 4, part = j % 4;
  const uint8_t *low = b + 64 * half + 32 * (part % 2), *high = b + 128 + 32 * half;
  g->scale = read_u16(b + 208);
  for (int i = 0; i < 32; ++i)
    g->q[i] = (part < 2 ? low[i] & 15 : low[i] >> 4) | (((high[i] >> (2 * part)) & 3) << 4);
  g->sub[0] = b[192 + 2 * j];
  g->sub[1] = b[192 + 2 * j + 1];
}

inline void group_iq4_xs(const uint8_t* b, int j, Group* g) {
  const int low = (b[4 + j / 2] >> (4 * (j % 2))) & 15;
  const int high = (read_u16(b + 2) >> (2 * j)) & 3;
  g->scale = read_u16(b);
  g->sub[0] = (uint8_t)(int8_t)((low | (high << 4)) - 32);
  nibbles(b + 8 + 16 * j, g->q);
}

// Group j (of 32 values) of a stored row.
inline void read_group(Encoding encoding, const uint8_t* row, int j, Group* g) {
  switch (encoding) {
    case Encoding::kQ4_0:
    case Encoding::kIQ4_NL: {
      const uint8_t* b = row + 18 * j;
      g->scale = read_u16(b);
      nibbles(b + 2, g->q);
      break;
    }
    case Encoding::kQ4_1: {
      const uint8_t* b = row + 20 * j;
      g->scale = read_u16(b);
      g->min = read_u16(b + 2);
      nibbles(b + 4, g->q);
      break;
    }
    case Encoding::kQ5_0: {
      const uint8_t* b = row + 22 * j;
      g->scale = read_u16(b);
      nibbles(b + 6, g->q);
      fifth_bits(read_u32(b + 2), g->q);
      break;
    }
    case Encoding::kQ5_1: {
      const uint8_t* b = row + 24 * j;
      g->scale = read_u16(b);
      g->min = read_u16(b + 2);
      nibbles(b + 8, g->q);
      fifth_bits(read_u32(b + 4), g->q);
      break;
    }
    case Encoding::kQ8_0: {
      const uint8_t* b = row + 34 * j;
      g->scale = read_u16(b);
      for (int i = 0; i < 32; ++i) g->q[i] = (uint8_t)(b[2 + i] + 128);
      break;
    }
    case Encoding::kQ2_K:
      return group_q2_k(row + 84 * (j / 8), j % 8, g);
    case Encoding::kQ3_K:
      return group_q3_k(row + 110 * (j / 8), j % 8, g);
    case Encoding::kQ4_K:
      return group_q4_k(row + 144 * (j / 8), j % 8, g);
    case Encoding::kQ5_K:
      return group_q5_k(row + 176 * (j / 8), j % 8, g);
    case Encoding::kQ6_K:
      return group_q6_k(row + 210 * (j / 8), j % 8, g);
    case Encoding::kIQ4_XS:
      return group_iq4_xs(row + 136 * (j / 8), j % 8, g);
    default:
      break;
  }
}

}  // namespace
}  // namespace unspool
