// Float matrix product for unquantized models.
//
// Weights in float32 and float16 meet inputs in float32: each output is one chain of fused multiply-adds over
// the inputs in ascending order. Weights in bfloat16 meet inputs that were rounded to bfloat16, as models of
// that kind were trained, two inputs a step: their products are exact in float32, and of a pair the second is
// added first. So the instruction that adds pairs (VDPBF16PS) and two fused multiply-adds give the same bits,
// but for denormal numbers, read or made, which that instruction turns into zeros.
#pragma once

namespace unspool {
namespace UNSPOOL_ISA {

// How the weights of 16 outputs for the inputs of a step meet them.
template <Store STORE>
struct FloatStep {
  static constexpr size_t kBytes = STORE == Store::kF32 ? 64 : 32;
  using Weights = F;
  using Inputs = F;
  static int count(const Packed& w) { return w.k; }
  static const float* row(const FloatInputs& x, int r) { return x.floats.row(r); }
  static Weights weights(const uint8_t* p) {
    return STORE == Store::kF32 ? f_load((const float*)p) : f_load_f16((const uint16_t*)p);
  }
  static Inputs inputs(const float* x, int step) { return f_set1(x[step]); }
  static F add(F acc, Weights w, Inputs x) { return f_fma(w, x, acc); }
};

template <>
struct FloatStep<Store::kBF16> {
  static constexpr size_t kBytes = 64;
  using Weights = W;
  using Inputs = W;
  static int count(const Packed& w) { return (w.k + 1) / 2; }
  static const uint16_t* row(const FloatInputs& x, int r) { return x.halves.row(r); }
  static Weights weights(const uint8_t* p) { return w_load(p); }
  static Inputs inputs(const uint16_t* x, int step) { return w_pair(x + 2 * step); }
  static F add(F acc, Weights w, Inputs x) { return f_dot_bf16(acc, w, x); }
};

// kFloatRows: rows that share one pass over the weights. tiles_beside: tiles at once, which hide the latency
// of the chains where rows are few; as many as leave half of the registers for weights and inputs.
// kFloatTiles: tiles that all rows pass over before the next ones.
constexpr int kFloatRows = kRegisters >= 32 ? 8 : 4, kFloatTiles = 4;
constexpr int tiles_beside(int n_rows) {
  const int room = kRegisters / 2 / n_rows;
  return room >= 4 ? 4 : room >= 2 ? 2 : 1;
}

// Bytes ahead of the read at which weights are asked for: past the 4 KiB at whose end the processor's own
// prefetcher stops.
constexpr size_t kFloatAhead = 5 * 1024;

template <class STEP, int NT, int NR>
static inline void float_tiles(const Packed& w, int t, const FloatInputs& x, int row, Rows out,
                               const float* bias, bool accumulate) {
  F acc[NT][NR];
  decltype(STEP::row(x, 0)) inputs[NR];
  for (int r = 0; r < NR; ++r) {
    inputs[r] = STEP::row(x, row + r);
    for (int i = 0; i < NT; ++i) acc[i][r] = f_zero();
  }
  const uint8_t* at = w.tile(t);
  for (int step = 0, n = STEP::count(w); step < n; ++step, at += STEP::kBytes) {
    typename STEP::Weights weights[NT];
    for (int i = 0; i < NT; ++i) {
      weights[i] = STEP::weights(at + i * w.tile_bytes);
      ask_for<1>(at + i * w.tile_bytes + kFloatAhead);
    }
    for (int r = 0; r < NR; ++r) {
      const auto input = STEP::inputs(inputs[r], step);
      for (int i = 0; i < NT; ++i) acc[i][r] = STEP::add(acc[i][r], weights[i], input);
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

template <class STEP, int NR>
static void float_block(const Packed& w, int t, int last, const FloatInputs& x, int row, Rows out,
                        const float* bias, bool accumulate) {
  constexpr int NT = tiles_beside(NR);
  for (; t + NT <= last; t += NT) float_tiles<STEP, NT, NR>(w, t, x, row, out, bias, accumulate);
  for (; t < last; ++t) float_tiles<STEP, 1, NR>(w, t, x, row, out, bias, accumulate);
}

// As many rows at once as there are, up to NR.
template <class STEP, int NR>
static inline void float_block_of(int n_rows, const Packed& w, int t, int last, const FloatInputs& x, int row,
                                  Rows out, const float* bias, bool accumulate) {
  if (n_rows >= NR) return float_block<STEP, NR>(w, t, last, x, row, out, bias, accumulate);
  if constexpr (NR > 1) float_block_of<STEP, NR - 1>(n_rows, w, t, last, x, row, out, bias, accumulate);
}

// All rows pass over a few tiles, which stay in the cache, before the next ones.
template <Store STORE>
static void float_rows(const Packed& w, int tile0, int tile1, const FloatInputs& x, int row0, int row1,
                       Rows out, const float* bias, bool accumulate) {
  for (int t = tile0; t < tile1; t += kFloatTiles) {
    const int last = t + kFloatTiles < tile1 ? t + kFloatTiles : tile1;
    for (int row = row0; row < row1; row += kFloatRows)
      float_block_of<FloatStep<STORE>, kFloatRows>(row1 - row, w, t, last, x, row, out, bias, accumulate);
  }
}

static void gemm_float(const Packed& w, int tile0, int tile1, const FloatInputs& x, int row0, int row1,
                       Rows out, const float* bias, bool accumulate) {
  if (w.store == Store::kF32)
    float_rows<Store::kF32>(w, tile0, tile1, x, row0, row1, out, bias, accumulate);
  else if (w.store == Store::kF16)
    float_rows<Store::kF16>(w, tile0, tile1, x, row0, row1, out, bias, accumulate);
  else
    float_rows<Store::kBF16>(w, tile0, tile1, x, row0, row1, out, bias, accumulate);
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
