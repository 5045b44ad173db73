// Vectors of UNSPOOL_VECTOR_BYTES as the vector types of GCC and Clang, and the few operations that these
// cannot say well. Included once per instruction set.
#pragma once
#include <stdint.h>
#include <string.h>

#include <initializer_list>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace unspool::sampling {
namespace UNSPOOL_ISA {

constexpr int kBytes = UNSPOOL_VECTOR_BYTES;
constexpr int kFloats = kBytes / 4;
constexpr int kDoubles = kBytes / 8;

typedef float F __attribute__((vector_size(kBytes)));
typedef float Narrow __attribute__((vector_size(kBytes / 2)));  // as many floats as D has doubles
typedef double D __attribute__((vector_size(kBytes)));
typedef int32_t I __attribute__((vector_size(kBytes)));
typedef int64_t L __attribute__((vector_size(kBytes)));
typedef uint64_t U __attribute__((vector_size(kBytes)));

template <class V, class T>
static inline V load(const T* p) {
  V out;
  memcpy(&out, p, sizeof out);
  return out;
}
template <class T, class V>
static inline void store(T* p, V a) {
  memcpy(p, &a, sizeof a);
}
static inline D widen(Narrow a) {
  return __builtin_convertvector(a, D);
}
static inline D set1(double x) {
  return x - (D){};
}
static inline F f_set1(float x) {
  return x - (F){};
}
static inline U u_set1(uint64_t x) {
  return x - (U){};
}

// The low halves of each 64-bit lane, multiplied to 64 bits.
static inline U mul_low(U a, U b) {
#if UNSPOOL_VECTOR_BYTES == 64
  return (U)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)b);  // the plain one trips -Wuninitialized
#elif UNSPOOL_VECTOR_BYTES == 32
  return (U)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (U)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

static inline D fused(D a, D b, D c) {  // a * b + c
#if UNSPOOL_VECTOR_BYTES == 64
  return (D)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif UNSPOOL_VECTOR_BYTES == 32
  return (D)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
  return a * b + c;
#endif
}

// A bit for each float of a that is >= b.
static inline unsigned mask_at_least(F a, F b) {
#if UNSPOOL_VECTOR_BYTES == 64
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GE_OQ);
#elif UNSPOOL_VECTOR_BYTES == 32
  return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GE_OQ));
#elif defined(__SSE2__)
  return (unsigned)_mm_movemask_ps(_mm_cmpge_ps((__m128)a, (__m128)b));
#else
  unsigned mask = 0;
  for (int i = 0; i < kFloats; ++i) mask |= (unsigned)(a[i] >= b[i]) << i;
  return mask;
#endif
}

// A bit for each of 64 bytes that is <= limit.
static inline uint64_t mask_at_most(const uint8_t* p, int limit) {
#if UNSPOOL_VECTOR_BYTES == 64
  return _mm512_cmple_epu8_mask(_mm512_loadu_si512(p), _mm512_set1_epi8((char)limit));
#elif UNSPOOL_VECTOR_BYTES == 32
  const __m256i most = _mm256_set1_epi8((char)limit);
  uint64_t mask = 0;
  for (int i = 0; i < 2; ++i) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i*)(p + 32 * i));
    const __m256i under = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, most), bytes);
    mask |= (uint64_t)(uint32_t)_mm256_movemask_epi8(under) << (32 * i);
  }
  return mask;
#else
  uint64_t mask = 0;
  for (int i = 0; i < 64; ++i) mask |= (uint64_t)(p[i] <= limit) << i;
  return mask;
#endif
}

// e^x for x clamped to [-708, 709]: n = round(x / ln 2), a Taylor polynomial of degree 12 on the rest, which
// is at most ln(2) / 2 (relative error below 3e-16), times 2^n through the exponent's bits.
static inline D exp_of(D x) {
  const D low = set1(-708.0), high = set1(709.0);
  x = x > low ? x : low;
  x = x < high ? x : high;
  const D magic = set1(6755399441055744.0);  // 1.5 * 2^52: adding it rounds to a whole number in the low bits
  const D shifted = fused(x, set1(1.44269504088896340736), magic);
  const D n = shifted - magic;
  D r = fused(n, set1(-6.93147180369123816490e-01), x);
  r = fused(n, set1(-1.90821492927058770002e-10), r);
  D p = fused(r, set1(1.0 / 479001600), set1(1.0 / 39916800));
  for (const double coefficient : {1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120,
                                   1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0})
    p = fused(p, r, set1(coefficient));
  return (D)((L)p + ((L)shifted << 52));
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool::sampling
