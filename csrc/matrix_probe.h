// What tests ask of one packed matrix outside of any network.
#pragma once
#include <vector>

#include "kernels.h"

namespace unspool {

// (n, k): its values.
std::vector<float> unpacked(const Packed& w);

// (n_rows, n): the product of x (n_rows, k) with it. `shifts`: the scales of quantized rows are powers of
// two.
std::vector<float> product(const Packed& w, const Kernels& kernels, const float* x, int n_rows, bool shifts);

}  // namespace unspool
