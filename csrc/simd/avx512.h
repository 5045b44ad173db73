// Sixteen-lane vectors on AVX-512 (F, BW, DQ, VL, VNNI). The three simd headers, each with
// its store_quants and store_halves (halves.h, avx512_halves.h), offer kernels the same names.
#pragma once
#include <immintrin.h>
#include <stdint.h>

#include "../packed.h"

namespace unspool {
namespace UNSPOOL_ISA {

using F = __m512;   // 16 float32
using I = __m512i;  // 16 int32
using W = __m512i;  // 64 unsigned bytes: lane r holds 4 consecutive inputs of output row r

constexpr int kRegisters = 32;        // vectors of 16 floats that a processor keeps at hand
constexpr bool kHasEightRows = true;  // add_eight_rows: avx512_rows.h
// How the matrix kernel for one tile is declared: as part of its caller, which keeps in registers what does
// not change from tile to tile. There are enough of them.
#define UNSPOOL_TILES inline __attribute__((always_inline))

static inline F f_zero() {
  return _mm512_setzero_ps();
}
static inline F f_set1(float x) {
  return _mm512_set1_ps(x);
}
static inline F f_load(const float* p) {
  return _mm512_loadu_ps(p);
}
static inline void f_store(float* p, F a) {
  _mm512_storeu_ps(p, a);
}
static inline F f_add(F a, F b) {
  return _mm512_add_ps(a, b);
}
static inline F f_sub(F a, F b) {
  return _mm512_sub_ps(a, b);
}
static inline F f_mul(F a, F b) {
  return _mm512_mul_ps(a, b);
}
static inline F f_div(F a, F b) {
  return _mm512_div_ps(a, b);
}
static inline F f_fma(F a, F b, F c) {
  return _mm512_fmadd_ps(a, b, c);
}
static inline F f_max(F a, F b) {
  return _mm512_max_ps(a, b);
}
static inline F f_min(F a, F b) {
  return _mm512_min_ps(a, b);
}
static inline F f_abs(F a) {
  return _mm512_abs_ps(a);
}

// Lane by lane, c where a < b and otherwise d.
static inline F f_where_less(F a, F b, F c, F d) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), d, c);
}

static inline F f_load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
}
static inline void f_store_f16(uint16_t* p, F a) {
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline I i_load_u8(const uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p));
}
static inline F f_load_u8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(i_load_u8(p));
}
static inline F f_load_i8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)));
}
// The low and the high half of bytes.
static inline F f_load_low4(const uint8_t* p) {
  const I wide = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p));
  return _mm512_cvtepi32_ps(_mm512_and_si512(wide, _mm512_set1_epi32(15)));
}
static inline F f_load_high4(const uint8_t* p) {
  const I wide = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p));
  return _mm512_cvtepi32_ps(_mm512_srli_epi32(wide, 4));
}

// Lanes are folded in halves, 16 to 8 to 4 to 2 to 1, on every instruction set alike.
static inline __m128 fold_add(F a) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  return _mm_add_ps(q, _mm_movehl_ps(q, q));
}
static inline float f_sum(F a) {
  const __m128 s = fold_add(a);
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static inline float f_max_lane(F a) {
  return _mm512_reduce_max_ps(a);
}

// Neighbours 2 i and 2 i + 1 change places.
static inline F f_swap(F a) {
  return _mm512_permute_ps(a, 0xb1);
}
// Lane i of the result is the largest lane of v[i].
static inline F f_max_each(const F v[16]) {
  F pairs[8], quads[4];
  for (int i = 0; i < 8; ++i)
    pairs[i] = f_max(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]), _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]));
  for (int i = 0; i < 4; ++i) {
    const __m512d a = _mm512_castps_pd(pairs[2 * i]), b = _mm512_castps_pd(pairs[2 * i + 1]);
    quads[i] = f_max(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  const auto join = [](F a, F b) {
    return f_max(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  };
  return join(join(quads[0], quads[1]), join(quads[2], quads[3]));
}

// Lanes in [first, last) keep a, the others become fill.
static inline F f_keep(F a, int first, int last, float fill) {
  const unsigned upto = last >= 16 ? 0xffffu : (last <= 0 ? 0u : (1u << last) - 1u);
  const unsigned below = first <= 0 ? 0u : (first >= 16 ? 0xffffu : (1u << first) - 1u);
  return _mm512_mask_mov_ps(_mm512_set1_ps(fill), (__mmask16)(upto & ~below), a);
}

static inline I i_set1(int x) {
  return _mm512_set1_epi32(x);
}
static inline F f_from_i(I a) {
  return _mm512_cvtepi32_ps(a);
}
static inline I i_load(const int32_t* p) {
  return _mm512_loadu_si512(p);
}
static inline void i_store(int32_t* p, I a) {
  _mm512_storeu_si512(p, a);
}
static inline I i_round(F a) {
  return _mm512_cvtps_epi32(a);
}
static inline I i_add(I a, I b) {
  return _mm512_add_epi32(a, b);
}
static inline I i_sub(I a, I b) {
  return _mm512_sub_epi32(a, b);
}
static inline I i_bits(F a) {
  return _mm512_castps_si512(a);
}
static inline I i_shift_left(I a, I bits) {
  return _mm512_sllv_epi32(a, bits);
}
// The least power of two that is not below a, for positive normal a, and its logarithm.
static inline F f_up_to_pow2(F a) {
  const I bits = _mm512_add_epi32(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fffff));
  return _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(0x7f800000)));
}
static inline I f_log2(F a) {
  return _mm512_sub_epi32(_mm512_srli_epi32(_mm512_castps_si512(a), 23), _mm512_set1_epi32(127));
}
// 2 to the power a, for a in [-126, 127].
static inline F f_pow2(I a) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(a, _mm512_set1_epi32(127)), 23));
}

static inline W w_load(const uint8_t* p) {
  return _mm512_loadu_si512(p);
}
static inline void w_store(uint8_t* p, W a) {
  _mm512_storeu_si512(p, a);
}
static inline W w_low(W a) {
  return _mm512_and_si512(a, _mm512_set1_epi8(15));
}
static inline W w_high(W a) {
  return _mm512_and_si512(_mm512_srli_epi16(a, 4), _mm512_set1_epi8(15));
}
// Bytes with their bit FROM at bit TO; what else moved there is masked by who asks.
template <int FROM, int TO>
static inline W w_move(W a) {
  if (FROM > TO) return _mm512_srli_epi16(a, FROM > TO ? FROM - TO : 0);
  return FROM < TO ? _mm512_slli_epi16(a, FROM < TO ? TO - FROM : 0) : a;
}
// N bits of every byte, from bit FROM to bit TO.
template <int FROM, int TO, int N>
static inline W w_bits(W a) {
  return _mm512_and_si512(w_move<FROM, TO>(a), _mm512_set1_epi8(((1 << N) - 1) << TO));
}
// Those of b beside the bits of a: a | (b & mask).
template <int FROM, int TO, int N>
static inline W w_or_bits(W a, W b) {
  return _mm512_ternarylogic_epi32(a, w_move<FROM, TO>(b), _mm512_set1_epi8(((1 << N) - 1) << TO), 0xf8);
}
static inline W w_iq4(W a) {
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)kIq4Levels)), a);
}

// Four activations, for every lane.
static inline I i_quad(const int8_t* quad) {
  int32_t bits;
  __builtin_memcpy(&bits, quad, 4);
  return _mm512_set1_epi32(bits);
}
// acc[r] += sum over 4 bytes of w[4 r + b] * quad[b]: unsigned weights by signed activations. i_dot7 takes
// weights below 128, which costs less on other instruction sets.
static inline I i_dot7(I acc, W w, I quad) {
  return _mm512_dpbusd_epi32(acc, w, quad);
}
static inline I i_dot8(I acc, W w, I quad) {
  return _mm512_dpbusd_epi32(acc, w, quad);
}

// Two numbers in bfloat16, for every lane.
static inline W w_pair(const uint16_t* pair) {
  int32_t bits;
  __builtin_memcpy(&bits, pair, 4);
  return _mm512_set1_epi32(bits);
}
// acc + a[1] * b[1] + a[0] * b[0] for the pair of each lane.
static inline F f_dot_bf16(F acc, W a, W b) {
#if defined(__AVX512BF16__)
  return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
#else
  const W upper = _mm512_set1_epi32((int)0xffff0000);
  const auto second = [upper](W pair) { return _mm512_castsi512_ps(_mm512_and_si512(pair, upper)); };
  const auto first = [](W pair) { return _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16)); };
  return f_fma(first(a), first(b), f_fma(second(a), second(b), acc));
#endif
}

// Lanes of 16 bits' range side by side: a in the lower half of each lane, b in the upper.
static inline I i_pairs(I a, I b) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, a, _mm512_slli_epi32(b, 16));
}
// acc + a * times[0] + b * times[1] for such pairs of a and b.
static inline I i_dot_pairs(I acc, I pairs, const int16_t* times) {
  int32_t bits;
  __builtin_memcpy(&bits, times, 4);
  return _mm512_dpwssd_epi32(acc, pairs, _mm512_set1_epi32(bits));
}
// a * times[0] + b * times[1].
static inline I i_dot2(I a, I b, const int16_t* times) {
  return i_dot_pairs(_mm512_setzero_si512(), i_pairs(a, b), times);
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
