// The two products of attention, on tiles of queries by tokens and of queries by values that stay in
// registers. A sum runs over dimensions or tokens in ascending order, one chain of fused multiply-adds,
// whatever the tile: so the tiling changes no bit.
#pragma once
#include <string.h>

namespace unspool {
namespace UNSPOOL_ISA {

constexpr int kLanes = 16;
// Queries and vectors of 16 tokens that share a tile of scores; queries and vectors of 16 values that share a
// tile of results.
constexpr int kScoreQueries = kRegisters >= 32 ? 12 : 6, kScoreBlocks = kRegisters >= 32 ? 2 : 1;
constexpr int kValueQueries = 6, kValueBlocks = kRegisters >= 32 ? 4 : 1;

// What is needed next is asked for while the tile before it is computed: pages lie far apart, where no
// prefetcher of the processor finds them.
struct Next {
  const char* at = nullptr;
  const char* end = nullptr;

  inline void ask(int n_lines) {
    for (int i = 0; i < n_lines && at < end; ++i, at += 64) __builtin_prefetch(at, 0, 2);
  }
};

static inline F f_load_any(const uint16_t* p) {
  return f_load_f16(p);
}
static inline F f_load_any(const float* p) {
  return f_load(p);
}

// p[i][16 b ..] = q[.., i] . k[.., token] for NB vectors of tokens: k is [head][k_stride], q [head][NQ], p
// [NQ][kSegment].
template <int NQ, int NB, class T>
static void score_tile(const T* k, int k_stride, int head, const float* q, float* p, Next* next) {
  F acc[NQ][NB];
  for (int i = 0; i < NQ; ++i)
    for (int b = 0; b < NB; ++b) acc[i][b] = f_zero();
  for (int d = 0; d < head; ++d) {
    if (next) next->ask(1);
    F keys[NB];
    for (int b = 0; b < NB; ++b) keys[b] = f_load_any(k + (size_t)d * k_stride + kLanes * b);
    for (int i = 0; i < NQ; ++i) {
      const F value = f_set1(q[d * NQ + i]);
      for (int b = 0; b < NB; ++b) acc[i][b] = f_fma(value, keys[b], acc[i][b]);
    }
  }
  for (int i = 0; i < NQ; ++i)
    for (int b = 0; b < NB; ++b) f_store(p + i * kSegment + kLanes * b, acc[i][b]);
}

// out[i][16 b ..] += sum over tokens of p[i][token] * v[token][16 b ..]: v is [tokens][v_stride].
template <int NQ, int NB, class T>
static void value_tile(const T* v, int v_stride, int tokens, const float* p, float* out, int out_stride,
                       Next* next) {
  F acc[NQ][NB];
  for (int i = 0; i < NQ; ++i)
    for (int b = 0; b < NB; ++b) acc[i][b] = f_load(out + i * out_stride + kLanes * b);
  for (int j = 0; j < tokens; ++j) {
    if (next) next->ask((NB + 1) / 2);
    F values[NB];
    for (int b = 0; b < NB; ++b) values[b] = f_load_any(v + (size_t)j * v_stride + kLanes * b);
    for (int i = 0; i < NQ; ++i) {
      const F weight = f_set1(p[i * kSegment + j]);
      for (int b = 0; b < NB; ++b) acc[i][b] = f_fma(weight, values[b], acc[i][b]);
    }
  }
  for (int i = 0; i < NQ; ++i)
    for (int b = 0; b < NB; ++b) f_store(out + i * out_stride + kLanes * b, acc[i][b]);
}

template <int NB, class T>
static void score(int n, const T* k, int k_stride, int head, const float* q, float* p, Next* next) {
  switch (n) {
#define UNSPOOL_TILE(NQ) \
  case NQ:               \
    return score_tile<NQ, NB>(k, k_stride, head, q, p, next);
    UNSPOOL_TILE(1)
    UNSPOOL_TILE(2)
    UNSPOOL_TILE(3)
    UNSPOOL_TILE(4)
    UNSPOOL_TILE(5)
    UNSPOOL_TILE(6)
  }
  if constexpr (kScoreQueries > 6) switch (n) {
      UNSPOOL_TILE(7)
      UNSPOOL_TILE(8)
      UNSPOOL_TILE(9)
      UNSPOOL_TILE(10)
      UNSPOOL_TILE(11)
      UNSPOOL_TILE(12)
#undef UNSPOOL_TILE
    }
}

template <int NB, class T>
static void add_values(int n, const T* v, int v_stride, int tokens, const float* p, float* out,
                       int out_stride, Next* next) {
  switch (n) {
#define UNSPOOL_TILE(NQ) \
  case NQ:               \
    return value_tile<NQ, NB>(v, v_stride, tokens, p, out, out_stride, next);
    UNSPOOL_TILE(1)
    UNSPOOL_TILE(2)
    UNSPOOL_TILE(3)
    UNSPOOL_TILE(4)
    UNSPOOL_TILE(5)
    UNSPOOL_TILE(6)
#undef UNSPOOL_TILE
  }
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
