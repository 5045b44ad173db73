// The two products of attention, on tiles of queries by tokens and of queries by values that stay in
// registers. A sum runs over dimensions or tokens in ascending order, one chain of fused multiply-adds,
// whatever the tile: so the tiling changes no bit.
#pragma once
#include <string.h>

#include <type_traits>

namespace unspool {
namespace UNSPOOL_ISA {

constexpr int kLanes = 16;
// Queries, and vectors of 16 tokens or values, that share a tile. Of values, tiles of half the queries are
// twice as wide.
constexpr int kTileQueries = kRegisters >= 32 ? 12 : 6, kTileBlocks = kRegisters >= 32 ? 2 : 1;

// What is needed next is asked for while the tile before it is computed, line by line: pages lie far apart,
// where no prefetcher of the processor finds them.
struct Next {
  const char* at = nullptr;  // of the page: left
  const char* end = nullptr;
  const char* base = nullptr;    // of page 0
  size_t stride = 0, bytes = 0;  // from page to page, and of what is wanted of each
  const int32_t* page = nullptr;
  const int32_t* last_page = nullptr;  // behind those wanted

  inline void ask(int n_lines) {
    for (int i = 0; i < n_lines; ++i, at += 64) {
      if (at >= end && !turn()) return;
      __builtin_prefetch(at, 0, 2);
    }
  }
  // Leaves only so many lines for later.
  inline void ask_all_but(int n_lines) {
    const int n = (int)((last_page - page) * ((bytes + 63) / 64)) - n_lines;
    if (n > 0) ask(n);
  }

 private:
  // To the next page; false when there is none.
  inline bool turn() {
    if (page == last_page) return false;
    at = base + (size_t)*page++ * stride;
    end = at + bytes;
    return true;
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
  Next ahead = next ? *next : Next{};
  int d = 0;
  do {
    ahead.ask(1);
    F keys[NB];
    for (int b = 0; b < NB; ++b) keys[b] = f_load_any(k + (size_t)d * k_stride + kLanes * b);
    for (int i = 0; i < NQ; ++i) {
      const F value = f_set1(q[d * NQ + i]);
      for (int b = 0; b < NB; ++b) acc[i][b] = f_fma(value, keys[b], acc[i][b]);
    }
  } while (++d < head);
  if (next) *next = ahead;
  for (int i = 0; i < NQ; ++i)
    for (int b = 0; b < NB; ++b) f_store(p + i * kSegment + kLanes * b, acc[i][b]);
}

// Values of some tokens of a segment that lie in a row.
template <class T>
struct Span {
  const T* v;
  int tokens;
};

// out[i][16 b ..] = sum over the tokens of all spans of p[i][token] * v[token][16 b ..], v being
// [tokens][v_stride].
template <int NQ, int NB, class T>
static void value_tile(const Span<T>* spans, int n_spans, int first, int v_stride, const float* p, float* out,
                       int out_stride, Next* next) {
  F acc[NQ][NB];
  for (int i = 0; i < NQ; ++i)
    for (int b = 0; b < NB; ++b) acc[i][b] = f_zero();
  const Span<T>* const end = spans + n_spans;
  Next ahead = next ? *next : Next{};
  do {
    const T* v = spans->v + first;
    const float* const p_end = p + spans->tokens;
    do {
      ahead.ask((NB + 1) / 2);
      F values[NB];
      for (int b = 0; b < NB; ++b) values[b] = f_load_any(v + kLanes * b);
      for (int i = 0; i < NQ; ++i) {
        const F weight = f_set1(p[i * kSegment]);
        for (int b = 0; b < NB; ++b) acc[i][b] = f_fma(weight, values[b], acc[i][b]);
      }
      v += v_stride;
    } while (++p < p_end);
  } while (++spans < end);
  if (next) *next = ahead;
  for (int i = 0; i < NQ; ++i)
    for (int b = 0; b < NB; ++b) f_store(out + i * out_stride + kLanes * b, acc[i][b]);
}

// Calls f with n as a constant, n in [1, MOST].
template <int MOST, class Fn>
static inline void with_constant(int n, Fn&& f) {
  if constexpr (MOST > 1)
    if (n < MOST) return with_constant<MOST - 1>(n, f);
  f(std::integral_constant<int, MOST>());
}

template <int NB, class T>
static void score(int n, const T* k, int k_stride, int head, const float* q, float* p, Next* next) {
  with_constant<kTileQueries>(n,
                              [&](auto queries) { score_tile<queries, NB>(k, k_stride, head, q, p, next); });
}

// Values [first, first + 16 NB).
template <int NB, class T>
static void add_values(int n, const Span<T>* spans, int n_spans, int first, int v_stride, const float* p,
                       float* out, int out_stride, Next* next) {
  constexpr int kMost = NB > kTileBlocks ? kTileQueries / 2 : kTileQueries;
  with_constant<kMost>(n, [&](auto queries) {
    value_tile<queries, NB>(spans, n_spans, first, v_stride, p, out, out_stride, next);
  });
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
