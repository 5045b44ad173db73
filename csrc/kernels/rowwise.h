// Kernels over one row at a time: norms, activations, quantization.
#pragma once
#include <math.h>

#include "../half.h"

namespace unspool {
namespace UNSPOOL_ISA {

static inline int lanes_left(int n, int i) {
  return n - i < 16 ? n - i : 16;
}

static inline F load_up_to(const float* p, int lanes) {
  if (lanes == 16) return f_load(p);
  float buffer[16] = {0};
  for (int i = 0; i < lanes; ++i) buffer[i] = p[i];
  return f_load(buffer);
}

static inline void store_up_to(float* p, F a, int lanes) {
  if (lanes == 16) return f_store(p, a);
  float buffer[16];
  f_store(buffer, a);
  for (int i = 0; i < lanes; ++i) p[i] = buffer[i];
}

// The sums of a row's groups in 16 bits: whole multiples of the least power of two with which the largest
// fits, so that their products with numbers of six bits, over the groups of an upper scale, stay below 2^24,
// which floats hold. What rounding takes from one is given to the fourth after it: the mins they meet are
// much alike, so that most of it comes to nothing.
static void quantize_sums(const ActGroup* groups, int step, float largest, int r, const Acts& acts) {
  constexpr int kMost = 32767, kChains = 4;
  int bits = 0;
  while (bits < 16 && largest >= (float)kMost * (float)(1 << bits)) ++bits;
  acts.sum_units[r] = (float)(1 << bits);
  SumPair* sums = acts.sums_of(r);
  const int half = 1 << bits >> 1;
  int64_t handed_on[kChains] = {0};  // wide, for what is no finite number
  for (int first = 0; first < acts.n_groups(); first += kChains, sums += kChains / 2 * step)
    for (int i = 0; i < kChains && first + i < acts.n_groups(); ++i, groups += step) {
      const int64_t wanted = (int64_t)groups->wsum32 + handed_on[i], whole = (wanted + half) >> bits;
      handed_on[i] = wanted - whole * (1 << bits);
      sums[i / 2 * step].of[i % 2] = (int16_t)whole;
    }
}

// In blocks of 16 halves, so that what there is one of for each half is computed side by side.
static void quantize(const float* x, int r, const Acts& acts) {
  const int n_halves = acts.k_padded / 16;
  F largest = f_zero(), hidden = f_zero(), hidden_too = f_zero();  // two sums that do not wait for each other
  for (int h = 0; h < n_halves; h += 2) {
    const F a = f_load(x + 16 * h), b = f_load(x + 16 * h + 16);
    largest = f_max(largest, f_max(f_abs(a), f_abs(b)));
    hidden = f_fma(a, f_zero(), hidden);  // zero, unless there is what is no finite number
    hidden_too = f_fma(b, f_zero(), hidden_too);
  }
  // A smaller unit's inverse would be infinite. No scale is rounded up past 32767 or 16384 of them.
  constexpr float kLeast = 1e-33f;
  const float most_units = acts.shifts ? 16383.0f : 32766.0f;
  const float top = f_max_lane(largest) * (1.0f / 127.0f);
  const float unit = (top > kLeast ? top : kLeast) * (1.0f / most_units);
  acts.units[r] = unit + f_sum(f_add(hidden, hidden_too));
  const F to_units = f_set1((1.0f / 127.0f) / unit), unit_lanes = f_set1(unit);

  int step;
  ActGroup* groups = acts.row(r, &step);
  const ActGroup* const its_groups = groups;
  F largest_sum = f_zero();
  for (int first = 0; first < n_halves; first += 16) {
    const int n = n_halves - first < 16 ? n_halves - first : 16;
    F values[16];
    for (int h = 0; h < 16; ++h) values[h] = h < n ? f_abs(f_load(x + 16 * (first + h))) : f_zero();
    F most = f_max_each(values);
    if (acts.whole_groups) most = f_max(most, f_swap(most));
    // Rounded up, so that no quotient rounds past 127. The upper bound is for what is no finite number.
    const F needed = f_min(f_max(f_mul(most, to_units), f_set1(1.0f)), f_set1(most_units + 0.5f));
    const I times = i_round(acts.shifts ? f_up_to_pow2(needed) : f_add(needed, f_set1(0.5f)));
    const F scale = f_from_i(times);
    float inverse[16];
    f_store(inverse, f_div(f_set1(1.0f), f_mul(scale, unit_lanes)));
    I rounded[16];
    for (int h = 0; h < 16; ++h)
      rounded[h] = h < n ? i_round(f_mul(f_load(x + 16 * (first + h)), f_set1(inverse[h]))) : i_set1(0);
    const I sum = store_quants(rounded, groups, step, n / 2);
    const F weighted = f_mul(scale, f_from_i(sum)), both = f_add(weighted, f_swap(weighted));
    store_halves(scale, i_sub(i_set1(0), sum), acts.shifts ? f_log2(scale) : i_bits(weighted), times, both,
                 groups, step, n / 2);
    groups += step * (n / 2);
    largest_sum = f_max(largest_sum, f_abs(both));
  }
  if (acts.has_sums) quantize_sums(its_groups, step, f_max_lane(largest_sum), r, acts);
}

static void halve(const float* x, uint16_t* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = f32_to_bf16(x[i]);
}

static void rms_norm(const float* x, const float* weight, float* out, int n, int group_size, float eps) {
  for (int start = 0; start < n; start += group_size) {
    const float* from = x + start;
    F squares = f_zero();
    for (int i = 0; i < group_size; i += 16) {
      const F a = load_up_to(from + i, lanes_left(group_size, i));
      squares = f_fma(a, a, squares);
    }
    const F factor = f_set1(1.0f / sqrtf(f_sum(squares) / (float)group_size + eps));
    for (int i = 0; i < group_size; i += 16) {
      const int lanes = lanes_left(group_size, i);
      const F a = load_up_to(from + i, lanes), w = load_up_to(weight + i, lanes);
      store_up_to(out + start + i, f_mul(f_mul(a, factor), w), lanes);
    }
  }
}

static inline F silu(F x) {
  return f_div(x, f_add(f_set1(1.0f), f_exp(f_sub(f_zero(), x))));
}

// Hendrycks and Gimpel 2016 (arXiv 1606.08415), the tanh form.
static inline F gelu_tanh(F x) {
  const F cube = f_mul(f_mul(x, x), x);
  const F inner = f_mul(f_set1(0.7978845608028654f), f_fma(f_set1(0.044715f), cube, x));
  return f_mul(f_mul(f_set1(0.5f), x), f_add(f_set1(1.0f), f_tanh(inner)));
}

static void gated(const float* gate, const float* up, float* out, int n, Gate kind) {
  for (int i = 0; i < n; i += 16) {
    const int lanes = lanes_left(n, i);
    const F g = load_up_to(gate + i, lanes), u = load_up_to(up + i, lanes);
    store_up_to(out + i, f_mul(kind == Gate::kSilu ? silu(g) : gelu_tanh(g), u), lanes);
  }
}

static void add(const float* a, const float* b, float* out, int n) {
  for (int i = 0; i < n; i += 16) {
    const int lanes = lanes_left(n, i);
    store_up_to(out + i, f_add(load_up_to(a + i, lanes), load_up_to(b + i, lanes)), lanes);
  }
}

static void scale_row(const float* x, float* out, int n, float factor) {
  for (int i = 0; i < n; i += 16) {
    const int lanes = lanes_left(n, i);
    store_up_to(out + i, f_mul(load_up_to(x + i, lanes), f_set1(factor)), lanes);
  }
}

static void softcap(const float* x, float* out, int n, float cap) {
  for (int i = 0; i < n; i += 16) {
    const int lanes = lanes_left(n, i);
    const F a = f_mul(load_up_to(x + i, lanes), f_set1(1.0f / cap));
    store_up_to(out + i, f_mul(f_tanh(a), f_set1(cap)), lanes);
  }
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
