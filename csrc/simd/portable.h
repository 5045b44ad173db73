// Sixteen-lane vectors for any processor, as the vector types of GCC and Clang: compilers turn them into
// whatever the target has (SSE2, NEON, SVE, ...).
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../half.h"
#include "../packed.h"

namespace unspool {
namespace UNSPOOL_ISA {

typedef float F __attribute__((vector_size(64)));
typedef int32_t I __attribute__((vector_size(64)));
typedef uint32_t W __attribute__((vector_size(64)));  // 64 bytes, four a lane, lowest first

constexpr int kRegisters = 8;  // vectors of 16 floats that a processor keeps at hand
constexpr bool kHasEightRows = false;
// How the matrix kernel for one tile is declared: apart from its caller, which would keep in registers what
// does not change from tile to tile. There are not enough of them.
#define UNSPOOL_TILES __attribute__((noinline))

typedef int16_t Words __attribute__((vector_size(64)));

static inline F f_set1(float x) {
  return x - (F){};
}
static inline F f_zero() {
  return (F){};
}
static inline F f_load(const float* p) {
  F out;
  memcpy(&out, p, sizeof out);
  return out;
}
static inline void f_store(float* p, F a) {
  memcpy(p, &a, sizeof a);
}
static inline F f_add(F a, F b) {
  return a + b;
}
static inline F f_sub(F a, F b) {
  return a - b;
}
static inline F f_mul(F a, F b) {
  return a * b;
}
static inline F f_div(F a, F b) {
  return a / b;
}
// Rounded twice: where the target has no such instruction, rounding once would take a function call a lane.
static inline F f_fma(F a, F b, F c) {
  return a * b + c;
}
static inline F f_max(F a, F b) {
  return a > b ? a : b;
}
static inline F f_min(F a, F b) {
  return a < b ? a : b;
}
static inline F f_abs(F a) {
  return (F)((I)a & 0x7fffffff);
}

// Lane by lane, c where a < b and otherwise d.
static inline F f_where_less(F a, F b, F c, F d) {
  return a < b ? c : d;
}

static inline F f_load_f16(const uint16_t* p) {
  F out;
  for (int i = 0; i < 16; ++i) out[i] = f16_to_f32(p[i]);
  return out;
}
static inline void f_store_f16(uint16_t* p, F a) {
  for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(a[i]);
}
static inline I i_load_u8(const uint8_t* p) {
  I out;
  for (int i = 0; i < 16; ++i) out[i] = p[i];
  return out;
}
static inline F f_load_u8(const uint8_t* p) {
  return __builtin_convertvector(i_load_u8(p), F);
}
static inline F f_load_i8(const uint8_t* p) {
  F out;
  for (int i = 0; i < 16; ++i) out[i] = (float)(int8_t)p[i];
  return out;
}
// The low and the high half of bytes.
static inline F f_load_low4(const uint8_t* p) {
  F out;
  for (int i = 0; i < 16; ++i) out[i] = (float)(p[i] & 15);
  return out;
}
static inline F f_load_high4(const uint8_t* p) {
  F out;
  for (int i = 0; i < 16; ++i) out[i] = (float)(p[i] >> 4);
  return out;
}

// Lanes are folded in halves, 16 to 8 to 4 to 2 to 1, as on every instruction set.
static inline float f_sum(F a) {
  for (int half = 8; half; half /= 2)
    for (int i = 0; i < half; ++i) a[i] += a[i + half];
  return a[0];
}
static inline float f_max_lane(F a) {
  float best = a[0];
  for (int i = 1; i < 16; ++i) best = a[i] > best ? a[i] : best;
  return best;
}
// Neighbours 2 i and 2 i + 1 change places.
static inline F f_swap(F a) {
  F out;
  for (int i = 0; i < 16; ++i) out[i] = a[i ^ 1];
  return out;
}
// Lane i of the result is the largest lane of v[i].
static inline F f_max_each(const F v[16]) {
  F out;
  for (int i = 0; i < 16; ++i) out[i] = f_max_lane(v[i]);
  return out;
}

static inline F f_keep(F a, int first, int last, float fill) {
  const I lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return (lane >= first) & (lane < last) ? a : f_set1(fill);
}

static inline I i_set1(int x) {
  return x - (I){};
}
static inline F f_from_i(I a) {
  return __builtin_convertvector(a, F);
}
// To the nearest integer, ties to even, for |a| < 2^22: adding 1.5 * 2^23 leaves it in the low mantissa bits.
static inline I i_round(F a) {
  const float magic = 12582912.0f;
  return (I)(a + magic) - (I)f_set1(magic);
}
static inline I i_add(I a, I b) {
  return a + b;
}
static inline I i_sub(I a, I b) {
  return (I)((W)a - (W)b);
}
static inline I i_bits(F a) {
  return (I)a;
}
static inline I i_shift_left(I a, I bits) {
  return (I)((W)a << (W)bits);
}
static inline I i_load(const int32_t* p) {
  I out;
  memcpy(&out, p, sizeof out);
  return out;
}
static inline void i_store(int32_t* p, I a) {
  memcpy(p, &a, sizeof a);
}
static inline I i_sum_each(const I v[16]) {
  W out = {};  // what is no finite number may go round
  for (int i = 0; i < 16; ++i)
    for (int lane = 0; lane < 16; ++lane) out[i] += (uint32_t)v[i][lane];
  return (I)out;
}
static inline void i_store_i8(int8_t* p, I a) {
  for (int i = 0; i < 16; ++i) p[i] = (int8_t)a[i];
}
// The least power of two that is not below a, for positive normal a, and its logarithm.
static inline F f_up_to_pow2(F a) {
  return (F)(((I)a + 0x7fffff) & 0x7f800000);
}
static inline I f_log2(F a) {
  return ((I)a >> 23) - 127;
}
static inline F f_pow2(I a) {
  return (F)((a + 127) << 23);
}

static inline W w_load(const uint8_t* p) {
  W out;
  memcpy(&out, p, sizeof out);
  return out;
}
static inline void w_store(uint8_t* p, W a) {
  memcpy(p, &a, sizeof a);
}
static inline W w_low(W a) {
  return a & 0x0f0f0f0fu;
}
static inline W w_high(W a) {
  return (a >> 4) & 0x0f0f0f0fu;
}
// N bits of every byte, from bit FROM to bit TO.
template <int FROM, int TO, int N>
static inline W w_bits(W a) {
  const uint32_t mask = 0x01010101u * (uint32_t)(((1 << N) - 1) << TO);
  return (FROM > TO ? a >> (FROM > TO ? FROM - TO : 0) : a << (FROM < TO ? TO - FROM : 0)) & mask;
}
// Those of b beside the bits of a.
template <int FROM, int TO, int N>
static inline W w_or_bits(W a, W b) {
  return a | w_bits<FROM, TO, N>(b);
}
static inline W w_iq4(W a) {
  uint8_t bytes[64];
  memcpy(bytes, &a, 64);
  for (int i = 0; i < 64; ++i) bytes[i] = kIq4Levels[bytes[i]];
  return w_load(bytes);
}
// Bytes 0 and 2 of a lane meet the activations in `quad[0]`, bytes 1 and 3 those in `quad[1]`, as pairs of
// 16-bit numbers: 255 * 128 fits, and 16-bit products are what every vector unit has.
static inline I i_quad(const int8_t* quad) {
  I out = {(int32_t)((uint16_t)quad[0] | (uint32_t)quad[2] << 16),
           (int32_t)((uint16_t)quad[1] | (uint32_t)quad[3] << 16)};
  return out;
}
static inline I pair_products(W bytes, int32_t pair) {
  const I products = (I)((Words)bytes * (Words)i_set1(pair));
  return ((I)((W)products << 16) >> 16) + (products >> 16);
}
static inline I i_dot8(I acc, W w, I quad) {
  acc += pair_products(w & 0x00ff00ffu, quad[0]);
  return acc + pair_products((w >> 8) & 0x00ff00ffu, quad[1]);
}
static inline I i_dot7(I acc, W w, I quad) {
  return i_dot8(acc, w, quad);
}

// Two numbers in bfloat16, for every lane.
static inline W w_pair(const uint16_t* pair) {
  return ((uint32_t)pair[0] | (uint32_t)pair[1] << 16) - (W){};
}
// acc + a[1] * b[1] + a[0] * b[0] for the pair of each lane.
static inline F f_dot_bf16(F acc, W a, W b) {
  const W upper = 0xffff0000u - (W){};
  return f_fma((F)(a << 16), (F)(b << 16), f_fma((F)(a & upper), (F)(b & upper), acc));
}

// Lanes of 16 bits' range side by side: a in the lower half of each lane, b in the upper.
static inline I i_pairs(I a, I b) {
  return (a & 0xffff) | (I)((W)b << 16);
}
// acc + a * times[0] + b * times[1] for such pairs of a and b.
static inline I i_dot_pairs(I acc, I pairs, const int16_t* times) {
  const I a = (I)((W)pairs << 16) >> 16, b = pairs >> 16;
  return acc + (I)((W)a * (uint32_t)(int32_t)times[0] + (W)b * (uint32_t)(int32_t)times[1]);
}
// a * times[0] + b * times[1].
static inline I i_dot2(I a, I b, const int16_t* times) {
  return (I)((W)a * (uint32_t)(int32_t)times[0] + (W)b * (uint32_t)(int32_t)times[1]);
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
