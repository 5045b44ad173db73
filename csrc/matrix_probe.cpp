#include "matrix_probe.h"

#include <string.h>

#include "memory.h"
#include "repack.h"

namespace unspool {

std::vector<float> unpacked(const Packed& w) {
  std::vector<float> values((size_t)w.n * w.k), row(w.k_padded);
  for (int n = 0; n < w.n; ++n) {
    unpack_row(w, n, row.data());
    memcpy(values.data() + (size_t)n * w.k, row.data(), w.k * sizeof(float));
  }
  return values;
}

std::vector<float> product(const Packed& w, const Kernels& kernels, const float* x, int n_rows, bool shifts) {
  const size_t stride = w.k_padded, wide = (size_t)w.n_tiles * kTile;
  std::vector<float> padded(n_rows * stride), out(n_rows * wide), result((size_t)n_rows * w.n);
  for (int r = 0; r < n_rows; ++r)
    memcpy(padded.data() + r * stride, x + (size_t)r * w.k, w.k * sizeof(float));
  if (w.quantized()) {
    std::vector<ActGroup> memory(Acts::bytes(n_rows, stride) / sizeof(ActGroup) + 1);
    const Acts acts(memory.data(), w.k_padded, n_rows, w.whole_groups(), shifts, w.multiplies_sums());
    for (int r = 0; r < n_rows; ++r) kernels.quantize(padded.data() + r * stride, r, acts);
    const Memory scratch(kGemmScratch * sizeof(float));
    kernels.gemm_quant(w, 0, w.n_tiles, acts, {out.data(), wide}, nullptr, false, scratch.as<float>(), {});
  } else {
    std::vector<uint16_t> halves(padded.size());
    kernels.halve(padded.data(), halves.data(), (int)padded.size());
    const FloatInputs inputs = {{padded.data(), stride}, {halves.data(), stride}};
    kernels.gemm_float(w, 0, w.n_tiles, inputs, 0, n_rows, {out.data(), wide}, nullptr, false);
  }
  for (int r = 0; r < n_rows; ++r)
    memcpy(result.data() + (size_t)r * w.n, out.data() + r * wide, w.n * sizeof(float));
  return result;
}

}  // namespace unspool
