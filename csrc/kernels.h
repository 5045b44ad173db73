// The table of kernels that each instruction set fills in. Row results never depend on which other
// rows are computed in the same call.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "packed.h"

namespace unspool {

enum class Gate : uint8_t { kSilu, kGeluTanh };

// One query vector of attention: a row and a head.
struct Query {
  const float* q;  // (head_dim,)
  float* out;      // (head_dim,)
  float* partial;  // or null: slots of partial_floats for what the call's segments give
  bool leads;      // one slot for all of them together; otherwise one each
  int position;
};

// K of tokens [token, end) of some pages, which will be read next.
struct Upcoming {
  const uint16_t* k;
  const int32_t* pages;
  int token, end;
};

struct AttentionShape {
  int head_dim;
  int head_padded;  // head_dim rounded up to 16
  int page_size;    // tokens a page, a multiple of 16 that divides kSegment
  float scale;
  float softcap;       // 0: none
  int window;          // 0: none
  size_t page_stride;  // f16 values between the same kv head of consecutive pages
};

constexpr int kSegment = 128;    // tokens: a context is reduced in segments at absolute positions
constexpr int kMaxQueries = 48;  // query vectors that share one pass over K and V
constexpr int kMaxHeadDim = 512;
constexpr int kDotsARound = 640;  // multiply-adds, a multiple of the 64 of one instruction

// Of one query and segment: weighted values, and then the largest score and the sum of the weights.
inline size_t partial_floats(int head_padded) {
  return (size_t)head_padded + 16;
}

// Memory that attending kMaxQueries queries takes: see Batch in kernels/attention_segment.h.
inline size_t attention_scratch(int head_padded) {
  return (size_t)kMaxQueries * (3 * head_padded + kSegment) + 32 * (size_t)(kSegment + head_padded);
}

constexpr int kMostFitted = 256;  // values of a block that scales are fitted to

// Floats for scales of a block of tiles that many rows pass over: see kernels/gemm_quant.h.
constexpr int kGemmScratch = 32 * 1024;

// The first segment that the token at `position` attends to.
inline int first_segment(const AttentionShape& shape, int position) {
  const int first = shape.window > 0 ? position - shape.window + 1 : 0;
  return first > 0 ? first / kSegment : 0;
}

// Where memory lies that is read later, for a product to ask for while it computes.
struct Fetch {
  // Weights: read in a row up to `end`, and then from `then` on; null where they lie in the cache.
  const uint8_t *end = nullptr, *then = nullptr;
  // Anything else: gives some `bytes` in a row that it did not give before, or null when none are left. No
  // function: none.
  const uint8_t* (*take)(void* from, size_t bytes) = nullptr;
  void* from = nullptr;
  // Of it, with every group of weights where these come from memory, too. What more than Acts::kBlock rows
  // attend to is more, and they take longer for a group.
  static constexpr int kBesideBytes = 128, kBesideBytesOfMore = 256;
};

// Asks for some lines of the cache.
template <int LINES>
inline void ask_for(const uint8_t* at) {
#pragma GCC unroll 9
  for (int line = 0; line < LINES; ++line) __builtin_prefetch(at + 64 * line, 0, 2);
}

using GemmFloat = void (*)(const Packed& w, int tile0, int tile1, const FloatInputs& x, int row0, int row1,
                           Rows out, const float* bias, bool accumulate);

struct Kernels {
  const char* name;

  // out[r][16 t ..] (+)= x[r] . w[tile t] + bias for tiles [tile0, tile1) and all rows of x, or [row0, row1).
  // scratch: kGemmScratch floats, on a line of the cache.
  void (*gemm_quant)(const Packed& w, int tile0, int tile1, const Acts& x, Rows out, const float* bias,
                     bool accumulate, float* scratch, const Fetch& fetch);
  GemmFloat gemm_float;

  // x (k_padded,) to row r of acts.
  void (*quantize)(const float* x, int r, const Acts& acts);
  // x (n,) to bfloat16: to nearest, ties to even.
  void (*halve)(const float* x, uint16_t* out, int n);

  // out = x / sqrt(mean(x^2) + eps) * weight over each group of group_size values; n values in all.
  void (*rms_norm)(const float* x, const float* weight, float* out, int n, int group_size, float eps);
  void (*gated)(const float* gate, const float* up, float* out, int n, Gate kind);
  void (*add)(const float* a, const float* b, float* out, int n);
  void (*scale)(const float* x, float* out, int n, float factor);
  void (*softcap)(const float* x, float* out, int n, float cap);

  // Store one token's K and V heads as float16: k_page is [head_padded][page_size], v_page
  // [page_size][head_padded].
  void (*store_kv)(const float* k, const float* v, uint16_t* k_page, uint16_t* v_page, int slot,
                   const AttentionShape& shape);

  // Attend n <= kMaxQueries queries of one kv head over segments [first, last), which cover the context of
  // each query that has no `partial`. scratch: attention_scratch floats.
  void (*attend)(const AttentionShape& shape, const uint16_t* k, const uint16_t* v, const int32_t* pages,
                 const Query* queries, int n, int first, int last, const Upcoming& then, float* scratch);
  // Combine the n partial results of one query, in order, and write out.
  void (*merge)(const AttentionShape& shape, const float* partial, int n, float* out);

  // x: [width][16], value by value of 16 blocks; the scale of each, and the minimum, 16 floats each. See
  // kernels/fit.h.
  void (*fit_lines)(const float* x, int width, int highest, bool lets_min_be_positive, float* scales,
                    float* minimums);
  void (*fit_scales)(const float* x, int width, int lowest, float* scales);

  // kDotsARound multiply-adds of 8-bit integers in registers, `rounds` times: see limits.h.
  int (*dots)(int rounds);
};

// Null when not built for this processor family.
const Kernels* kernels_avx512(bool with_bf16);
const Kernels* kernels_avx2();
const Kernels* kernels_portable();

extern const GemmFloat gemm_float_avx512bf16;

// The widest set this processor runs, or the one named; null when the name is unknown or unavailable.
// "avx512" takes the products of bfloat16 that the processor has; "avx512 without bf16" does not.
const Kernels* select_kernels(const char* name);
// The same; throws std::invalid_argument in place of null.
const Kernels& kernels_named(const char* name);

}  // namespace unspool
