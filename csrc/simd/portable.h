// Sixteen-lane vectors as plain arrays: any processor, and written so that compilers vectorise the loops.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../half.h"

namespace unspool {
namespace UNSPOOL_ISA {

struct F {
  float v[16];
};
struct I {
  int32_t v[16];
};
struct W {
  uint8_t v[64];
};

#define UNSPOOL_LANES(expression)                       \
  F out;                                                \
  for (int i = 0; i < 16; ++i) out.v[i] = (expression); \
  return out

static inline F f_set1(float x) {
  UNSPOOL_LANES(x);
}
static inline F f_zero() {
  return f_set1(0.0f);
}
static inline F f_load(const float* p) {
  UNSPOOL_LANES(p[i]);
}
static inline void f_store(float* p, F a) {
  memcpy(p, a.v, sizeof a.v);
}
static inline F f_add(F a, F b) {
  UNSPOOL_LANES(a.v[i] + b.v[i]);
}
static inline F f_sub(F a, F b) {
  UNSPOOL_LANES(a.v[i] - b.v[i]);
}
static inline F f_mul(F a, F b) {
  UNSPOOL_LANES(a.v[i] * b.v[i]);
}
static inline F f_div(F a, F b) {
  UNSPOOL_LANES(a.v[i] / b.v[i]);
}
static inline F f_fma(F a, F b, F c) {
  UNSPOOL_LANES(a.v[i] * b.v[i] + c.v[i]);
}
static inline F f_max(F a, F b) {
  UNSPOOL_LANES(a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
static inline F f_min(F a, F b) {
  UNSPOOL_LANES(a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
}
static inline F f_abs(F a) {
  UNSPOOL_LANES(a.v[i] < 0 ? -a.v[i] : a.v[i]);
}
static inline F f_load_f16(const uint16_t* p) {
  UNSPOOL_LANES(f16_to_f32(p[i]));
}
static inline F f_load_bf16(const uint16_t* p) {
  UNSPOOL_LANES(bf16_to_f32(p[i]));
}
static inline F f_load_u8(const uint8_t* p) {
  UNSPOOL_LANES((float)p[i]);
}
static inline F f_load_i8(const uint8_t* p) {
  UNSPOOL_LANES((float)(int8_t)p[i]);
}
static inline F f_keep(F a, int first, int last, float fill) {
  UNSPOOL_LANES(i >= first && i < last ? a.v[i] : fill);
}
static inline F f_from_i(I a) {
  UNSPOOL_LANES((float)a.v[i]);
}
static inline F f_pow2(I a) {
  F out;
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = (uint32_t)(a.v[i] + 127) << 23;
    memcpy(&out.v[i], &bits, 4);
  }
  return out;
}
static inline void f_store_f16(uint16_t* p, F a) {
  for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(a.v[i]);
}
static inline float f_sum(F a) {
  for (int half = 8; half; half /= 2)
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
  return a.v[0];
}
static inline float f_max_lane(F a) {
  float best = a.v[0];
  for (int i = 1; i < 16; ++i) best = a.v[i] > best ? a.v[i] : best;
  return best;
}

static inline I i_set1(int x) {
  I out;
  for (int i = 0; i < 16; ++i) out.v[i] = x;
  return out;
}
static inline I i_round(F a) {
  I out;
  for (int i = 0; i < 16; ++i) out.v[i] = (int32_t)nearbyintf(a.v[i]);
  return out;
}
static inline I i_add(I a, I b) {
  for (int i = 0; i < 16; ++i) a.v[i] += b.v[i];
  return a;
}
static inline int i_sum(I a) {
  int total = 0;
  for (int i = 0; i < 16; ++i) total += a.v[i];
  return total;
}
static inline void i_store_i8(int8_t* p, I a) {
  for (int i = 0; i < 16; ++i) p[i] = (int8_t)a.v[i];
}

static inline W w_load(const uint8_t* p) {
  W out;
  memcpy(out.v, p, 64);
  return out;
}
static inline W w_low(W a) {
  for (int i = 0; i < 64; ++i) a.v[i] &= 15;
  return a;
}
static inline W w_high(W a) {
  for (int i = 0; i < 64; ++i) a.v[i] >>= 4;
  return a;
}
static inline I i_quad(const int8_t* quad) {
  I out;
  for (int i = 0; i < 4; ++i) out.v[i] = quad[i];
  return out;
}
static inline I i_dot8(I acc, const W& w, const I& quad) {
  for (int i = 0; i < 16; ++i) {
    const uint8_t* four = w.v + 4 * i;
    acc.v[i] += four[0] * quad.v[0] + four[1] * quad.v[1] + four[2] * quad.v[2] + four[3] * quad.v[3];
  }
  return acc;
}
static inline I i_dot4(I acc, const W& w, const I& quad) {
  return i_dot8(acc, w, quad);
}

#undef UNSPOOL_LANES

}  // namespace UNSPOOL_ISA
}  // namespace unspool
