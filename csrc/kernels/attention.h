// Attention over pages of float16 keys and values, with a running softmax (Milakov and Gimelshein 2018,
// arXiv 1805.02867).
//
// A context is cut into segments of kSegment tokens at absolute positions. Each segment is reduced from
// nothing, token by token in order, and segments are merged in ascending order; so the arithmetic of one
// query is the same whether one thread walks all segments or several share them, whatever else runs, and
// however the tokens lie on pages.
//
// The queries of one call share one pass over K and V. A segment is taken page by page: first the scores of
// all queries, then their weights, then the weighted values. Where several tiles of queries read a page, its
// float16 values are widened once, into a panel that stays in the first-level cache.
#pragma once
#include <math.h>
#include <string.h>

namespace unspool {
namespace UNSPOOL_ISA {

static inline float f_first(F a) {
  float lanes[kLanes];
  f_store(lanes, a);
  return lanes[0];
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
  // Of the two factors one is e^0, which is exactly 1.
  const F before = total->max == next ? f_set1(1.0f) : f_exp(f_set1(total->max - next));
  const F here = part.max == next ? f_set1(1.0f) : f_exp(f_set1(part.max - next));
  total->sum = total->sum * f_first(before) + part.sum * f_first(here);
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

// Lays the queries out tile by tile, dimension by dimension, so that a tile reads its values in a row.
static Batch batch_of(const AttentionShape& shape, const Query* queries, int n, float* scratch) {
  const int head = shape.head_padded, n_tiles = (n + kTileQueries - 1) / kTileQueries;
  Batch batch = {};
  batch.queries = queries;
  batch.n = n;
  batch.tile = (n + n_tiles - 1) / n_tiles;
  batch.q = scratch;
  batch.p = batch.q + (size_t)n * head;
  batch.acc = batch.p + (size_t)n * kSegment;
  batch.total = batch.acc + (size_t)n * head;
  batch.panel = batch.total + (size_t)n * head;
  batch.newest = batch.oldest = queries[0].position;
  for (int i = 0; i < n; ++i) {
    const int position = queries[i].position;
    batch.newest = position > batch.newest ? position : batch.newest;
    batch.oldest = position < batch.oldest ? position : batch.oldest;
    const int first = i / batch.tile * batch.tile;
    const int its = n - first < batch.tile ? n - first : batch.tile;
    float* q = batch.q + (size_t)first * head + (i - first);
    for (int d = 0; d < shape.head_dim; ++d) q[d * its] = queries[i].q[d] * shape.scale;
  }
  return batch;
}

static inline void store_part(float* to, int head, Running part, const float* acc) {
  memcpy(to, acc, sizeof(float) * head);
  to[head] = part.max;
  to[head + 1] = part.sum;
}

static void attend(const AttentionShape& shape, const uint16_t* k, const uint16_t* v, const int32_t* pages,
                   const Query* queries, int n, int first, int last, const Upcoming& then, float* scratch) {
  Batch batch = batch_of(shape, queries, n, scratch);
  batch.end = last * kSegment < batch.newest + 1 ? last * kSegment : batch.newest + 1;
  batch.then = then;
  const int head = shape.head_padded;
  Running running[kMaxQueries], total[kMaxQueries];
  for (int i = 0; i < n; ++i) total[i] = {-INFINITY, 0.0f};
  const int earliest = first_segment(shape, batch.oldest);
  for (int segment = first > earliest ? first : earliest; segment < last; ++segment) {
    reduce_segment(shape, k, v, pages, batch, segment, running);
    for (int i = 0; i < n; ++i) {
      const float* acc = batch.acc + (size_t)i * head;
      if (queries[i].partial && !queries[i].leads)
        store_part(queries[i].partial + (size_t)(segment - first) * partial_floats(head), head, running[i],
                   acc);
      else
        fold_segment(head, &total[i], batch.total + (size_t)i * head, running[i], acc);
    }
  }
  for (int i = 0; i < n; ++i) {
    float* acc = batch.total + (size_t)i * head;
    if (!queries[i].partial)
      write_out(shape, total[i], acc, queries[i].out);
    else if (queries[i].leads)
      store_part(queries[i].partial, head, total[i], acc);
  }
}

static void merge(const AttentionShape& shape, const float* partial, int n, float* out) {
  const int head = shape.head_padded;
  alignas(64) float acc[kMaxHeadDim];
  Running total = {-INFINITY, 0.0f};
  for (int i = 0; i < n; ++i, partial += partial_floats(head))
    fold_segment(head, &total, acc, {partial[head], partial[head + 1]}, partial);
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
