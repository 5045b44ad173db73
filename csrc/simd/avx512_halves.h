// Eight groups of activations stored at once on AVX-512: as halves.h does it, by fewer instructions.
#pragma once
#include "avx512.h"

namespace unspool {
namespace UNSPOOL_ISA {

// As in halves.h.
static inline I store_quants(const I halves[16], ActGroup* to, int step, int n) {
  const I in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  I sums[4];  // of four halves, those of each in one lane of a quarter
  for (int i = 0; i < 4; ++i) {
    const I* const four = halves + 4 * i;
    const I bytes =
        _mm512_packs_epi16(_mm512_packs_epi32(four[0], four[1]), _mm512_packs_epi32(four[2], four[3]));
    sums[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), bytes);
    const I quants = _mm512_permutexvar_epi32(in_order, bytes);
    if (2 * i < n) _mm256_storeu_si256((__m256i*)to[2 * i * step].q, _mm512_castsi512_si256(quants));
    if (2 * i + 1 < n)
      _mm256_storeu_si256((__m256i*)to[(2 * i + 1) * step].q, _mm512_extracti64x4_epi64(quants, 1));
  }
  const auto join = [](I a, I b) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
  };
  return join(join(sums[0], sums[1]), join(sums[2], sums[3]));
}

// As in halves.h.
static inline void store_halves(F scale, I minus, I shift_or_wsum16, I times, F wsum32, ActGroup* to,
                                int step, int n) {
  const I second_times = _mm512_slli_epi64(_mm512_srli_epi64(times, 32), 16);
  const I both_times = _mm512_mask_blend_epi16(0xaaaaaaaa, times, second_times);
  const I last = _mm512_mask_mov_epi32(both_times, 0xaaaa, _mm512_castps_si512(wsum32));
  const I first = _mm512_castps_si512(scale);
  // Of two neighbouring groups one is in the lower, the other in the upper halves of the quarters.
  const I pieces[4] = {_mm512_unpacklo_epi64(first, minus), _mm512_unpacklo_epi64(shift_or_wsum16, last),
                       _mm512_unpackhi_epi64(first, minus), _mm512_unpackhi_epi64(shift_or_wsum16, last)};
  __m128i quarters[4][4];
  for (int i = 0; i < 4; ++i) _mm512_storeu_si512(quarters[i], pieces[i]);
  for (int g = 0; g < n; ++g) {
    ActGroup* const group = to + g * step;
    __m128i* const at = (__m128i*)((uint8_t*)group + sizeof group->q);
    _mm_store_si128(at, quarters[2 * (g % 2)][g / 2]);
    _mm_store_si128(at + 1, quarters[2 * (g % 2) + 1][g / 2]);
  }
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
