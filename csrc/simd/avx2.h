// Sixteen-lane vectors as pairs of AVX2 registers (AVX2, FMA, F16C).
#pragma once
#include <immintrin.h>
#include <stdint.h>

#include "../packed.h"

namespace unspool {
namespace UNSPOOL_ISA {

struct F {
  __m256 lo, hi;
};
struct I {
  __m256i lo, hi;
};
using W = I;

constexpr int kRegisters = 8;  // vectors of 16 floats that a processor keeps at hand
constexpr bool kHasEightRows = false;
// How the matrix kernel for one tile is declared: apart from its caller, which would keep in registers what
// does not change from tile to tile. There are not enough of them.
#define UNSPOOL_TILES __attribute__((noinline))

static inline F f_zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
static inline F f_set1(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
static inline F f_load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
static inline void f_store(float* p, F a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
static inline F f_add(F a, F b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
static inline F f_sub(F a, F b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
static inline F f_mul(F a, F b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
static inline F f_div(F a, F b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
static inline F f_fma(F a, F b, F c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
static inline F f_max(F a, F b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
static inline F f_min(F a, F b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
static inline F f_abs(F a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}

// Lane by lane, c where a < b and otherwise d.
static inline F f_where_less(F a, F b, F c, F d) {
  return {_mm256_blendv_ps(d.lo, c.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(d.hi, c.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}

static inline F f_load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)),
          _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8)))};
}
static inline void f_store_f16(uint16_t* p, F a) {
  _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128((__m128i*)(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
static inline I i_load_u8(const uint8_t* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)),
          _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8)))};
}
static inline F f_load_u8(const uint8_t* p) {
  const I wide = i_load_u8(p);
  return {_mm256_cvtepi32_ps(wide.lo), _mm256_cvtepi32_ps(wide.hi)};
}
static inline F f_load_i8(const uint8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p))),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8))))};
}
static inline __m256i half_wide(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p));
}
// The low and the high half of bytes.
static inline F f_load_low4(const uint8_t* p) {
  const __m256i low = _mm256_set1_epi32(15);
  return {_mm256_cvtepi32_ps(_mm256_and_si256(half_wide(p), low)),
          _mm256_cvtepi32_ps(_mm256_and_si256(half_wide(p + 8), low))};
}
static inline F f_load_high4(const uint8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_srli_epi32(half_wide(p), 4)),
          _mm256_cvtepi32_ps(_mm256_srli_epi32(half_wide(p + 8), 4))};
}

static inline float f_sum(F a) {
  const __m256 h = _mm256_add_ps(a.lo, a.hi);
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  const __m128 s = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static inline float f_max_lane(F a) {
  const __m256 h = _mm256_max_ps(a.lo, a.hi);
  const __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  const __m128 s = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

// Neighbours 2 i and 2 i + 1 change places.
static inline F f_swap(F a) {
  return {_mm256_permute_ps(a.lo, 0xb1), _mm256_permute_ps(a.hi, 0xb1)};
}
// Sixteen vectors folded at once, by FOLD of two vectors: lane i of the result is v[i] folded to one lane.
template <class FOLD>
static inline F fold_each(const __m256 v[16], FOLD fold) {
  __m256 pairs[8], quads[4];
  for (int i = 0; i < 8; ++i)
    pairs[i] = fold(_mm256_unpacklo_ps(v[2 * i], v[2 * i + 1]), _mm256_unpackhi_ps(v[2 * i], v[2 * i + 1]));
  for (int i = 0; i < 4; ++i) {
    const __m256d a = _mm256_castps_pd(pairs[2 * i]), b = _mm256_castps_pd(pairs[2 * i + 1]);
    quads[i] = fold(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
  }
  const auto join = [fold](__m256 a, __m256 b) {
    return fold(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  };
  return {join(quads[0], quads[1]), join(quads[2], quads[3])};
}
static inline F f_max_each(const F v[16]) {
  const auto fold = [](__m256 a, __m256 b) { return _mm256_max_ps(a, b); };
  __m256 halves[16];
  for (int i = 0; i < 16; ++i) halves[i] = fold(v[i].lo, v[i].hi);
  return fold_each(halves, fold);
}

static inline __m256 half_keep(__m256 a, int first, int last, float fill) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i past = _mm256_cmpgt_epi32(_mm256_set1_epi32(last), lane);
  const __m256i early = _mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane);
  return _mm256_blendv_ps(_mm256_set1_ps(fill), a, _mm256_castsi256_ps(_mm256_andnot_si256(early, past)));
}
static inline F f_keep(F a, int first, int last, float fill) {
  return {half_keep(a.lo, first, last, fill), half_keep(a.hi, first - 8, last - 8, fill)};
}

static inline I i_set1(int x) {
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
static inline F f_from_i(I a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
static inline I i_round(F a) {
  return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}
static inline I i_add(I a, I b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
static inline I i_sub(I a, I b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
static inline I i_bits(F a) {
  return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
static inline I i_shift_left(I a, I bits) {
  return {_mm256_sllv_epi32(a.lo, bits.lo), _mm256_sllv_epi32(a.hi, bits.hi)};
}
static inline I i_load(const int32_t* p) {
  return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + 8))};
}
static inline void i_store(int32_t* p, I a) {
  _mm256_storeu_si256((__m256i*)p, a.lo);
  _mm256_storeu_si256((__m256i*)(p + 8), a.hi);
}
static inline I i_sum_each(const I v[16]) {
  __m256 halves[16];
  for (int i = 0; i < 16; ++i) halves[i] = _mm256_castsi256_ps(_mm256_add_epi32(v[i].lo, v[i].hi));
  const F sums = fold_each(halves, [](__m256 a, __m256 b) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  });
  return {_mm256_castps_si256(sums.lo), _mm256_castps_si256(sums.hi)};
}
static inline __m128i half_i8(__m256i a) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  return _mm_packs_epi16(words, words);
}
static inline void i_store_i8(int8_t* p, I a) {
  _mm_storel_epi64((__m128i*)p, half_i8(a.lo));
  _mm_storel_epi64((__m128i*)(p + 8), half_i8(a.hi));
}
// The least power of two that is not below a, for positive normal a, and its logarithm.
static inline __m256 half_up_to_pow2(__m256 a) {
  const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(a), _mm256_set1_epi32(0x7fffff));
  return _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(0x7f800000)));
}
static inline F f_up_to_pow2(F a) {
  return {half_up_to_pow2(a.lo), half_up_to_pow2(a.hi)};
}
static inline __m256i half_log2(__m256 a) {
  return _mm256_sub_epi32(_mm256_srli_epi32(_mm256_castps_si256(a), 23), _mm256_set1_epi32(127));
}
static inline I f_log2(F a) {
  return {half_log2(a.lo), half_log2(a.hi)};
}
static inline __m256 half_pow2(__m256i a) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(a, _mm256_set1_epi32(127)), 23));
}
static inline F f_pow2(I a) {
  return {half_pow2(a.lo), half_pow2(a.hi)};
}

static inline W w_load(const uint8_t* p) {
  return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + 32))};
}
static inline void w_store(uint8_t* p, W a) {
  _mm256_storeu_si256((__m256i*)p, a.lo);
  _mm256_storeu_si256((__m256i*)(p + 32), a.hi);
}
static inline __m256i half_low(__m256i a) {
  return _mm256_and_si256(a, _mm256_set1_epi8(15));
}
static inline W w_low(W a) {
  return {half_low(a.lo), half_low(a.hi)};
}
static inline W w_high(W a) {
  return {half_low(_mm256_srli_epi16(a.lo, 4)), half_low(_mm256_srli_epi16(a.hi, 4))};
}
// N bits of every byte, from bit FROM to bit TO.
template <int FROM, int TO, int N>
static inline __m256i half_bits(__m256i a) {
  const __m256i mask = _mm256_set1_epi8(((1 << N) - 1) << TO);
  if (FROM > TO) return _mm256_and_si256(_mm256_srli_epi16(a, FROM > TO ? FROM - TO : 0), mask);
  return _mm256_and_si256(_mm256_slli_epi16(a, FROM < TO ? TO - FROM : 0), mask);
}
template <int FROM, int TO, int N>
static inline W w_bits(W a) {
  return {half_bits<FROM, TO, N>(a.lo), half_bits<FROM, TO, N>(a.hi)};
}
// Those of b beside the bits of a.
template <int FROM, int TO, int N>
static inline W w_or_bits(W a, W b) {
  return {_mm256_or_si256(a.lo, half_bits<FROM, TO, N>(b.lo)),
          _mm256_or_si256(a.hi, half_bits<FROM, TO, N>(b.hi))};
}
static inline W w_iq4(W a) {
  const __m256i levels = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)kIq4Levels));
  return {_mm256_shuffle_epi8(levels, a.lo), _mm256_shuffle_epi8(levels, a.hi)};
}

static inline I i_quad(const int8_t* quad) {
  int32_t bits;
  __builtin_memcpy(&bits, quad, 4);
  return i_set1(bits);
}
// Weights of up to 7 bits: pair sums stay below 2 * 127 * 128 < 2^15, so maddubs does not saturate.
static inline __m256i half_dot7(__m256i acc, __m256i w, __m256i quad) {
  const __m256i pairs = _mm256_maddubs_epi16(w, quad);
  return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
static inline I i_dot7(I acc, W w, I quad) {
  return {half_dot7(acc.lo, w.lo, quad.lo), half_dot7(acc.hi, w.hi, quad.hi)};
}
// Weights up to 255 would saturate maddubs: even and odd bytes are widened to 16 bits instead.
static inline __m256i half_dot8(__m256i acc, __m256i w, __m256i even, __m256i odd) {
  const __m256i w_even = _mm256_and_si256(w, _mm256_set1_epi16(255));
  acc = _mm256_add_epi32(acc, _mm256_madd_epi16(w_even, even));
  return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_srli_epi16(w, 8), odd));
}
static inline I i_dot8(I acc, W w, I quad) {
  const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(quad.lo, 8), 8);
  const __m256i odd = _mm256_srai_epi16(quad.lo, 8);
  return {half_dot8(acc.lo, w.lo, even, odd), half_dot8(acc.hi, w.hi, even, odd)};
}

// Two numbers in bfloat16, for every lane.
static inline W w_pair(const uint16_t* pair) {
  int32_t bits;
  __builtin_memcpy(&bits, pair, 4);
  return i_set1(bits);
}
static inline __m256 half_dot_bf16(__m256 acc, __m256i a, __m256i b) {
  const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
  const auto second = [upper](__m256i pair) { return _mm256_castsi256_ps(_mm256_and_si256(pair, upper)); };
  const auto first = [](__m256i pair) { return _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16)); };
  return _mm256_fmadd_ps(first(a), first(b), _mm256_fmadd_ps(second(a), second(b), acc));
}
// acc + a[1] * b[1] + a[0] * b[0] for the pair of each lane.
static inline F f_dot_bf16(F acc, W a, W b) {
  return {half_dot_bf16(acc.lo, a.lo, b.lo), half_dot_bf16(acc.hi, a.hi, b.hi)};
}

// Lanes of 16 bits' range side by side: a in the lower half of each lane, b in the upper.
static inline __m256i half_pairs(__m256i a, __m256i b) {
  return _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa);
}
static inline I i_pairs(I a, I b) {
  return {half_pairs(a.lo, b.lo), half_pairs(a.hi, b.hi)};
}
// a * times[0] + b * times[1] for such pairs of a and b.
static inline I times_pairs(I pairs, const int16_t* times) {
  int32_t bits;
  __builtin_memcpy(&bits, times, 4);
  const __m256i both = _mm256_set1_epi32(bits);
  return {_mm256_madd_epi16(pairs.lo, both), _mm256_madd_epi16(pairs.hi, both)};
}
static inline I i_dot_pairs(I acc, I pairs, const int16_t* times) {
  return i_add(acc, times_pairs(pairs, times));
}
static inline I i_dot2(I a, I b, const int16_t* times) {
  return times_pairs(i_pairs(a, b), times);
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
