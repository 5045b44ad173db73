// One segment of attention, reduced from nothing for the queries of a call: see attention.h.
#pragma once
#include <math.h>
#include <string.h>

namespace unspool {
namespace UNSPOOL_ISA {

struct Running {
  float max;
  float sum;
};

// The queries of a call, and where their parts lie in the caller's scratch memory.
struct Batch {
  const Query* queries;
  int n;
  int tile;            // queries of a tile of scores; the last may have fewer
  float* q;            // scaled, [tile of queries][head_padded][its queries]
  float* p;            // scores and then weights of a segment, [n][kSegment]
  float* acc;          // weighted values of a segment, [n][head_padded]
  float* total;        // of all segments so far, [n][head_padded]
  float* panel;        // K or V of some tokens as float32
  int newest, oldest;  // positions
  int end;             // tokens from here on are not read by this call
  Upcoming then;       // what is read after it
};

// Values of each token of a tile; the panel of V holds as many of a segment.
constexpr int kTileValues = kLanes * kTileBlocks, kWideValues = 2 * kTileValues;

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

// The same for a whole segment of which nothing is masked, in two steps: with the largest scores of all
// queries known, the weights of one do not wait for the end of the one before.
static inline float largest_whole(const float* p) {
  F largest = f_set1(-INFINITY);
  for (int b = 0; b < kSegment / kLanes; ++b) largest = f_max(largest, f_load(p + kLanes * b));
  return f_max_lane(largest);
}

static inline float weigh_whole(float* p, float max) {
  F total = f_zero();
  for (int b = 0; b < kSegment / kLanes; ++b) {
    const F weight = f_exp(f_sub(f_load(p + kLanes * b), f_set1(max)));
    f_store(p + kLanes * b, weight);
    total = f_add(total, weight);
  }
  return f_sum(total);
}

// Tokens [begin, end) of a segment are seen by some query; begin is a page's first.
struct Seen {
  int base, begin, end;
};

static inline Seen seen(const AttentionShape& shape, const Batch& batch, int segment) {
  const int base = segment * kSegment, past = batch.newest + 1 - base;
  const int begin = shape.window > 0 ? batch.oldest - shape.window + 1 - base : 0;
  return {base, begin > 0 ? begin / shape.page_size * shape.page_size : 0, past < kSegment ? past : kSegment};
}

static inline const uint16_t* page_at(const AttentionShape& shape, const uint16_t* base, const int32_t* pages,
                                      int token) {
  return base + (size_t)pages[token / shape.page_size] * shape.page_stride;
}

// What lies on the pages of tokens [token, end), which begin and end a page: `bytes` of each.
static inline Next pages_of(const AttentionShape& shape, const uint16_t* base, const int32_t* pages,
                            int token, int end, size_t bytes) {
  Next next;
  next.base = reinterpret_cast<const char*>(base);
  next.stride = sizeof(uint16_t) * shape.page_stride;
  next.bytes = bytes;
  next.page = pages + token / shape.page_size;
  next.last_page = pages + (end + shape.page_size - 1) / shape.page_size;
  return next;
}

// The keys that are read after a segment: of this call or, where it ends, of what comes then.
static inline Next next_keys(const AttentionShape& shape, const uint16_t* k, const int32_t* pages,
                             const Batch& batch, int segment) {
  const size_t bytes = sizeof(uint16_t) * shape.page_size * shape.head_padded;
  const auto of_segment = [&](const uint16_t* base, const int32_t* its_pages, int token, int end) {
    const int segment_end = (token / kSegment + 1) * kSegment;
    return pages_of(shape, base, its_pages, token, end < segment_end ? end : segment_end, bytes);
  };
  const int token = (segment + 1) * kSegment;
  if (token < batch.end) return of_segment(k, pages, token, batch.end);
  const Upcoming& then = batch.then;
  return then.token < then.end ? of_segment(then.k, then.pages, then.token, then.end) : Next{};
}

static void score_segment(const AttentionShape& shape, const uint16_t* k, const uint16_t* v,
                          const int32_t* pages, const Batch& batch, const Seen& s) {
  const int size = shape.page_size, head = shape.head_dim;
  const bool widen = batch.n > batch.tile;
  for (int at = s.begin; at < s.end; at += size) {
    const uint16_t* page = page_at(shape, k, pages, s.base + at);
    const int tokens = s.end - at < size ? s.end - at : size;
    Next next = pages_of(shape, v, pages, s.base + at, s.base + at + tokens,
                         sizeof(uint16_t) * tokens * shape.head_padded);
    for (int block = 0; block < tokens; block += kLanes * kTileBlocks) {
      const int n_blocks = kTileBlocks > 1 && block + kLanes < tokens ? kTileBlocks : 1;
      constexpr int kStride = kLanes * kTileBlocks;
      for (int d = 0; widen && d < head; ++d) {
        next.ask(n_blocks);
        for (int b = 0; b < n_blocks; ++b)
          f_store(batch.panel + d * kStride + kLanes * b, f_load_f16(page + d * size + block + kLanes * b));
      }
      for (int i = 0; i < batch.n; i += batch.tile) {
        const int n = batch.n - i < batch.tile ? batch.n - i : batch.tile;
        const float* q = batch.q + (size_t)i * shape.head_padded;
        float* p = batch.p + (size_t)i * kSegment + at + block;
        if (widen)
          n_blocks == 1 ? score<1>(n, batch.panel, kStride, head, q, p, nullptr)
                        : score<kTileBlocks>(n, batch.panel, kStride, head, q, p, nullptr);
        else
          n_blocks == 1 ? score<1>(n, page + block, size, head, q, p, &next)
                        : score<kTileBlocks>(n, page + block, size, head, q, p, &next);
      }
    }
  }
}

// acc[i][first + ..] of all queries for values [first, first + width) of each token, which are values
// [from, from + width) of the spans.
template <class T>
static void add_spans(const AttentionShape& shape, const Batch& batch, int begin, const Span<T>* spans,
                      int n_spans, int from, int v_stride, int first, int width, Next* next) {
  const bool wide = batch.n <= kTileQueries / 2;
  for (int i = 0; i < batch.n; i += kTileQueries) {
    const int n = batch.n - i < kTileQueries ? batch.n - i : kTileQueries;
    const float* p = batch.p + (size_t)i * kSegment + begin;
    float* out = batch.acc + (size_t)i * shape.head_padded + first;
    int d = 0;
    for (; wide && d + kWideValues <= width; d += kWideValues)
      add_values<2 * kTileBlocks>(n, spans, n_spans, from + d, v_stride, p, out + d, shape.head_padded, next);
    for (; d + kTileValues <= width; d += kTileValues)
      add_values<kTileBlocks>(n, spans, n_spans, from + d, v_stride, p, out + d, shape.head_padded, next);
    for (; d < width; d += kLanes)
      add_values<1>(n, spans, n_spans, from + d, v_stride, p, out + d, shape.head_padded, next);
  }
}

static void value_segment(const AttentionShape& shape, const uint16_t* k, const uint16_t* v,
                          const int32_t* pages, const Batch& batch, const Seen& s) {
  const int size = shape.page_size, head = shape.head_padded;
  Span<uint16_t> spans[kSegment / 16];  // a page each
  int n_spans = 0;
  for (int at = s.begin; at < s.end; at += size, ++n_spans)
    spans[n_spans] = {page_at(shape, v, pages, s.base + at), s.end - at < size ? s.end - at : size};
  Next next = next_keys(shape, k, pages, batch, s.base / kSegment);
  next.ask_all_but((s.end - s.begin) * ((head + 31) / 32));
  if (batch.n <= kTileQueries)  // too few to pay for widening them
    return add_spans(shape, batch, s.begin, spans, n_spans, 0, head, 0, head, &next);
  for (int d = 0; d < head; d += kTileValues) {
    const int width = head - d < kTileValues ? head - d : kTileValues;
    float* to = batch.panel;
    for (int i = 0; i < n_spans; ++i) {
      const uint16_t* from = spans[i].v + d;
      for (int j = 0; j < spans[i].tokens; ++j, from += head, to += kTileValues) {
        next.ask((width + 31) / 32);
        for (int e = 0; e < width; e += kLanes) f_store(to + e, f_load_f16(from + e));
      }
    }
    const Span<float> panel = {batch.panel, s.end - s.begin};
    add_spans(shape, batch, s.begin, &panel, 1, 0, kTileValues, d, width, nullptr);
  }
}

static void soften(const AttentionShape& shape, const Batch& batch, const Seen& s, Running* running) {
  const bool is_whole = batch.oldest + 1 - s.base >= kSegment && s.begin == 0 && !(shape.softcap > 0.0f) &&
                        (shape.window == 0 || batch.newest + 1 - s.base <= shape.window);
  if (is_whole) {
    for (int i = 0; i < batch.n; ++i) running[i].max = largest_whole(batch.p + (size_t)i * kSegment);
    for (int i = 0; i < batch.n; ++i)
      running[i].sum = weigh_whole(batch.p + (size_t)i * kSegment, running[i].max);
    return;
  }
  for (int i = 0; i < batch.n; ++i) {
    const int last = batch.queries[i].position + 1 - s.base;
    const int first = shape.window > 0 ? last - shape.window : 0;
    float* p = batch.p + (size_t)i * kSegment;
    if (last > 0 && first < kSegment) {
      running[i] = softmax(shape, p, s.begin / 16, (s.end + 15) / 16, first, last);
    } else {
      running[i] = {-INFINITY, 0.0f};
      memset(p, 0, sizeof(float) * kSegment);
    }
  }
}

// One segment for all queries: what they attend to in it goes to running[i] and batch.acc. Pages only say
// where a token lies: their size changes no bit.
static void reduce_segment(const AttentionShape& shape, const uint16_t* k, const uint16_t* v,
                           const int32_t* pages, const Batch& batch, int segment, Running* running) {
  const Seen s = seen(shape, batch, segment);
  score_segment(shape, k, v, pages, batch, s);
  soften(shape, batch, s, running);
  value_segment(shape, k, v, pages, batch, s);
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
