// Attention over pages of float16 keys and values, with a running softmax (Milakov and Gimelshein 2018,
// arXiv 1805.02867).
//
// A context is cut into segments of kSegment tokens at absolute positions. Each segment is reduced from
// nothing, token by token in order, and segments are merged in ascending order; so the arithmetic of one
// query is the same whether one thread walks all segments or several share them, whatever else runs, and
// however the tokens lie on pages.
#pragma once
#include <math.h>
#include <string.h>

namespace unspool {
namespace UNSPOOL_ISA {

struct Running {
  float max;
  float sum;
};

// Scores of NB blocks of 16 tokens for NQ queries: p[i][16 b ..] = q[i] . k[.., token].
template <int NQ, int NB>
static inline void score_blocks(const uint16_t* k, int head, int page_size, const float* q, int stride,
                                float* p, int p_stride) {
  F acc[NQ][NB];
  for (int i = 0; i < NQ; ++i)
    for (int b = 0; b < NB; ++b) acc[i][b] = f_zero();
  for (int d = 0; d < head; ++d) {
    F keys[NB];
    for (int b = 0; b < NB; ++b) keys[b] = f_load_f16(k + (size_t)d * page_size + 16 * b);
    for (int i = 0; i < NQ; ++i) {
      const F value = f_set1(q[i * stride + d]);
      for (int b = 0; b < NB; ++b) acc[i][b] = f_fma(value, keys[b], acc[i][b]);
    }
  }
  for (int i = 0; i < NQ; ++i)
    for (int b = 0; b < NB; ++b) f_store(p + i * p_stride + 16 * b, acc[i][b]);
}

// acc[i][16 b ..] += sum over tokens of p[i][token] * v[token][16 b ..].
template <int NQ, int NB>
static inline void value_blocks(const uint16_t* v, int stride, int tokens, const float* p, int p_stride,
                                float* out) {
  F acc[NQ][NB];
  for (int i = 0; i < NQ; ++i)
    for (int b = 0; b < NB; ++b) acc[i][b] = f_load(out + i * stride + 16 * b);
  for (int j = 0; j < tokens; ++j) {
    F values[NB];
    for (int b = 0; b < NB; ++b) values[b] = f_load_f16(v + (size_t)j * stride + 16 * b);
    for (int i = 0; i < NQ; ++i) {
      const F weight = f_set1(p[i * p_stride + j]);
      for (int b = 0; b < NB; ++b) acc[i][b] = f_fma(weight, values[b], acc[i][b]);
    }
  }
  for (int i = 0; i < NQ; ++i)
    for (int b = 0; b < NB; ++b) f_store(out + i * stride + 16 * b, acc[i][b]);
}

// Turns the scores of one query over a segment into weights, their sum and the largest score. Tokens
// outside [first, last) are masked; only blocks [block0, block1) of 16 tokens are looked at, since the rest
// is masked for every query.
static inline Running softmax(const AttentionShape& shape, float* p, int block0, int block1, int first,
                              int last) {
  F largest = f_set1(-INFINITY);
  for (int b = block0; b < block1; ++b) {
    F s = f_load(p + 16 * b);
    if (shape.softcap > 0.0f)
      s = f_mul(f_tanh(f_mul(s, f_set1(1.0f / shape.softcap))), f_set1(shape.softcap));
    s = f_keep(s, first - 16 * b, last - 16 * b, -INFINITY);
    f_store(p + 16 * b, s);
    largest = f_max(largest, s);
  }
  const float max = f_max_lane(largest);
  F total = f_zero();
  for (int b = block0; b < block1; ++b) {
    const F e = f_exp(f_sub(f_load(p + 16 * b), f_set1(max)));
    const F weight = f_keep(e, first - 16 * b, last - 16 * b, 0.0f);
    f_store(p + 16 * b, weight);
    total = f_add(total, weight);
  }
  return {max, f_sum(total)};
}

// One segment for NQ queries: what they attend to in it goes to running[i] and acc[i]. Pages only say where
// a token lies: their size changes no bit.
template <int NQ>
static void reduce_segment(const AttentionShape& shape, const uint16_t* k, const uint16_t* v,
                           const int32_t* pages, const Query* queries, const float* q, int segment,
                           Running* running, float* acc) {
  const int size = shape.page_size, head = shape.head_padded, base = segment * kSegment;
  int newest = 0, oldest = queries[0].position;
  for (int i = 0; i < NQ; ++i) {
    newest = queries[i].position > newest ? queries[i].position : newest;
    oldest = queries[i].position < oldest ? queries[i].position : oldest;
  }
  // Tokens [begin, end) of the segment are seen by some query; begin is a page's first.
  const int end = newest + 1 - base < kSegment ? newest + 1 - base : kSegment;
  int begin = shape.window > 0 ? oldest - shape.window + 1 - base : 0;
  begin = begin > 0 ? begin / size * size : 0;

  alignas(64) float p[NQ * kSegment];
  for (int at = begin; at < end; at += size) {
    const uint16_t* page = k + (size_t)pages[(base + at) / size] * shape.page_stride;
    const int tokens = end - at < size ? end - at : size;
    int block = 0;
    for (; block + 16 < tokens; block += 32)
      score_blocks<NQ, 2>(page + block, shape.head_dim, size, q, head, p + at + block, kSegment);
    if (block < tokens)
      score_blocks<NQ, 1>(page + block, shape.head_dim, size, q, head, p + at + block, kSegment);
  }
  for (int i = 0; i < NQ; ++i) {
    const int position = queries[i].position;
    int last = position + 1 - base, first = shape.window > 0 ? position - shape.window + 1 - base : 0;
    last = last > kSegment ? kSegment : last;
    first = first < 0 ? 0 : first;
    running[i] = {-INFINITY, 0.0f};
    if (last <= first)
      memset(p + i * kSegment, 0, sizeof(float) * kSegment);
    else
      running[i] = softmax(shape, p + i * kSegment, begin / 16, (end + 15) / 16, first, last);
  }
  memset(acc, 0, sizeof(float) * NQ * head);
  for (int at = begin; at < end; at += size) {
    const uint16_t* page = v + (size_t)pages[(base + at) / size] * shape.page_stride;
    const int tokens = end - at < size ? end - at : size;
    constexpr int kBlocks = NQ <= 4 ? 4 : 2;
    int d = 0;
    for (; d + 16 * kBlocks <= head; d += 16 * kBlocks)
      value_blocks<NQ, kBlocks>(page + d, head, tokens, p + at, kSegment, acc + d);
    for (; d < head; d += 16) value_blocks<NQ, 1>(page + d, head, tokens, p + at, kSegment, acc + d);
  }
}

// Folds a segment's result into the total; a segment in which everything was masked changes nothing.
static inline void fold_segment(int head, Running* total, float* total_acc, Running part, const float* acc) {
  if (part.max == -INFINITY) return;
  if (total->max == -INFINITY) {
    *total = part;
    memcpy(total_acc, acc, sizeof(float) * head);
    return;
  }
  const float next = part.max > total->max ? part.max : total->max;
  const F before = f_exp(f_set1(total->max - next)), here = f_exp(f_set1(part.max - next));
  float a[16], b[16];
  f_store(a, before);
  f_store(b, here);
  total->sum = total->sum * a[0] + part.sum * b[0];
  total->max = next;
  for (int d = 0; d < head; d += 16)
    f_store(total_acc + d, f_fma(f_load(acc + d), here, f_mul(f_load(total_acc + d), before)));
}

// Where no largest score is a number nothing was attended to, and whoever reads the logits is to see it.
static inline void write_out(const AttentionShape& shape, Running total, float* acc, float* out) {
  if (!(total.max > -INFINITY && total.max < INFINITY))
    for (int d = 0; d < shape.head_padded; ++d) acc[d] = NAN;
  const F inverse = f_set1(1.0f / total.sum);
  for (int d = 0; d < shape.head_dim; d += 16)
    store_up_to(out + d, f_mul(f_load(acc + d), inverse), lanes_left(shape.head_dim, d));
}

template <int NQ>
static void attend_queries(const AttentionShape& shape, const uint16_t* k, const uint16_t* v,
                           const int32_t* pages, const Query* queries, int first, int last, float* partial,
                           size_t partial_stride) {
  const int head = shape.head_padded;
  alignas(64) float q[NQ * kMaxHeadDim], acc[NQ * kMaxHeadDim];
  for (int i = 0; i < NQ; ++i)
    for (int d = 0; d < head; d += 16) {
      F value = f_zero();
      if (d < shape.head_dim) value = load_up_to(queries[i].q + d, lanes_left(shape.head_dim, d));
      f_store(q + i * head + d, f_mul(value, f_set1(shape.scale)));
    }
  Running running[NQ];
  if (partial) {
    reduce_segment<NQ>(shape, k, v, pages, queries, q, first, running, acc);
    for (int i = 0; i < NQ; ++i) {
      float* to = partial + i * partial_stride;
      memcpy(to, acc + i * head, sizeof(float) * head);
      to[head] = running[i].max;
      to[head + 1] = running[i].sum;
    }
    return;
  }
  alignas(64) float total_acc[NQ * kMaxHeadDim];
  Running total[NQ];
  for (int i = 0; i < NQ; ++i) total[i] = {-INFINITY, 0.0f};
  for (int segment = first; segment < last; ++segment) {
    reduce_segment<NQ>(shape, k, v, pages, queries, q, segment, running, acc);
    for (int i = 0; i < NQ; ++i)
      fold_segment(head, &total[i], total_acc + i * head, running[i], acc + i * head);
  }
  for (int i = 0; i < NQ; ++i) write_out(shape, total[i], total_acc + i * head, queries[i].out);
}

static void attend(const AttentionShape& shape, const uint16_t* k, const uint16_t* v, const int32_t* pages,
                   const Query* queries, int n, int first, int last, float* partial, size_t partial_stride) {
  switch (n) {
#define UNSPOOL_QUERIES(NQ) \
  case NQ:                  \
    return attend_queries<NQ>(shape, k, v, pages, queries, first, last, partial, partial_stride);
    UNSPOOL_QUERIES(1)
    UNSPOOL_QUERIES(2)
    UNSPOOL_QUERIES(3)
    UNSPOOL_QUERIES(4)
    UNSPOOL_QUERIES(5)
    UNSPOOL_QUERIES(6)
    UNSPOOL_QUERIES(7)
    UNSPOOL_QUERIES(8)
#undef UNSPOOL_QUERIES
  }
}

static void merge(const AttentionShape& shape, const float* partial, size_t segment_stride, int n_segments,
                  float* out) {
  alignas(64) float acc[kMaxHeadDim];
  Running total = {-INFINITY, 0.0f};
  for (int s = 0; s < n_segments; ++s) {
    const float* part = partial + s * segment_stride;
    fold_segment(shape.head_padded, &total, acc, {part[shape.head_padded], part[shape.head_padded + 1]},
                 part);
  }
  write_out(shape, total, acc, out);
}

// Values beyond the float16 range are stored as its largest, so that a masked token (weight 0) can never
// contribute 0 * infinity.
static inline void to_f16(const float* x, uint16_t* out, const AttentionShape& shape) {
  const F limit = f_set1(65504.0f), floor = f_set1(-65504.0f);
  for (int d = 0; d < shape.head_padded; d += 16) {
    F value = f_zero();
    if (d < shape.head_dim) value = load_up_to(x + d, lanes_left(shape.head_dim, d));
    f_store_f16(out + d, f_min(f_max(value, floor), limit));
  }
}

static void store_kv(const float* k, const float* v, uint16_t* k_page, uint16_t* v_page, int slot,
                     const AttentionShape& shape) {
  uint16_t half[kMaxHeadDim];
  to_f16(k, half, shape);
  for (int d = 0; d < shape.head_padded; ++d) k_page[(size_t)d * shape.page_size + slot] = half[d];
  to_f16(v, v_page + (size_t)slot * shape.head_padded, shape);
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
