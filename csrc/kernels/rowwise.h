// Kernels over one row at a time: norms, activations, quantization.
#pragma once
#include <math.h>

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

// In blocks of 16 halves, so that the scales of a block are computed side by side.
static void quantize(const float* x, int r, const Acts& acts) {
  const int n_halves = acts.k_padded / 16;
  int step;
  ActGroup* groups = acts.row(r, &step);
  for (int first = 0; first < n_halves; first += 16) {
    const int n = n_halves - first < 16 ? n_halves - first : 16;
    float largest[16] = {0}, scale[16], inverse[16];
    for (int h = 0; h < n; ++h) largest[h] = f_max_lane(f_abs(f_load(x + 16 * (first + h))));
    for (int h = 0; acts.whole_groups && h < n; h += 2)
      // Either is taken when it is not a number.
      largest[h] = largest[h + 1] =
          largest[h] > largest[h + 1] || largest[h] != largest[h] ? largest[h] : largest[h + 1];
    // A scale so small that its inverse would be infinite: such values are zero to float32 anyway. The
    // order matters: where one side is not a number f_max gives the second, and so the scale shows it.
    const F limit = f_max(f_set1(1e-37f), f_mul(f_load(largest), f_set1(1.0f / 127.0f)));
    f_store(scale, limit);
    f_store(inverse, f_div(f_set1(1.0f), limit));
    for (int h = 0; h < n; h += 2, groups += step) {
      for (int i = 0; i < 2; ++i) {
        const I rounded = i_round(f_mul(f_load(x + 16 * (first + h + i)), f_set1(inverse[h + i])));
        i_store_i8(groups->q + 16 * i, rounded);
        const int sum = i_sum(rounded);
        groups->scale[i] = scale[h + i];
        groups->minus[i] = -sum;
        groups->wsum16[i] = scale[h + i] * (float)sum;
      }
      groups->wsum32 = groups->wsum16[0] + groups->wsum16[1];
    }
  }
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
