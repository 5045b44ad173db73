// Float matrix product for unquantized models: float32, float16 or bfloat16 weights, float32 activations.
// Each output is one chain of fused multiply-adds over the inputs in ascending order.
#pragma once

namespace unspool {
namespace UNSPOOL_ISA {

template <Store STORE>
static inline F load_weights(const uint8_t* p) {
  if (STORE == Store::kF32) return f_load((const float*)p);
  if (STORE == Store::kF16) return f_load_f16((const uint16_t*)p);
  return f_load_bf16((const uint16_t*)p);
}

// NT tiles at once hide the latency of the chains when rows are few.
template <Store STORE, int NT, int NR>
static inline void float_tiles(const Packed& w, int t, Rows x, int row, Rows out, const float* bias,
                               bool accumulate) {
  constexpr size_t kBytes = STORE == Store::kF32 ? 64 : 32;
  F acc[NT][NR];
  for (int i = 0; i < NT; ++i)
    for (int r = 0; r < NR; ++r) acc[i][r] = f_zero();
  for (int k = 0; k < w.k; ++k) {
    F weights[NT];
    for (int i = 0; i < NT; ++i) weights[i] = load_weights<STORE>(w.tile(t + i) + (size_t)k * kBytes);
    for (int r = 0; r < NR; ++r) {
      const F value = f_set1(x.row(row + r)[k]);
      for (int i = 0; i < NT; ++i) acc[i][r] = f_fma(weights[i], value, acc[i][r]);
    }
  }
  for (int i = 0; i < NT; ++i)
    for (int r = 0; r < NR; ++r) {
      float* to = out.row(row + r) + (t + i) * kTile;
      F value = acc[i][r];
      if (bias) value = f_add(value, f_load(bias + (t + i) * kTile));
      if (accumulate) value = f_add(f_load(to), value);
      f_store(to, value);
    }
}

template <Store STORE, int NT>
static inline void float_row_blocks(const Packed& w, int t, Rows x, int row0, int row1, Rows out,
                                    const float* bias, bool accumulate) {
  int row = row0;
  for (; row + 4 <= row1; row += 4) float_tiles<STORE, NT, 4>(w, t, x, row, out, bias, accumulate);
  for (; row < row1; ++row) float_tiles<STORE, NT, 1>(w, t, x, row, out, bias, accumulate);
}

template <Store STORE>
static void float_rows(const Packed& w, int tile0, int tile1, Rows x, int row0, int row1, Rows out,
                       const float* bias, bool accumulate) {
  int t = tile0;
  for (; t + 4 <= tile1; t += 4) float_row_blocks<STORE, 4>(w, t, x, row0, row1, out, bias, accumulate);
  for (; t < tile1; ++t) float_row_blocks<STORE, 1>(w, t, x, row0, row1, out, bias, accumulate);
}

static void gemm_float(const Packed& w, int tile0, int tile1, Rows x, int row0, int row1, Rows out,
                       const float* bias, bool accumulate) {
  if (w.store == Store::kF32)
    float_rows<Store::kF32>(w, tile0, tile1, x, row0, row1, out, bias, accumulate);
  else if (w.store == Store::kF16)
    float_rows<Store::kF16>(w, tile0, tile1, x, row0, row1, out, bias, accumulate);
  else
    float_rows<Store::kBF16>(w, tile0, tile1, x, row0, row1, out, bias, accumulate);
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
