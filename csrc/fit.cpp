#include "fit.h"

#include <algorithm>

namespace unspool {

namespace {

// Sixteen blocks at a time, value by value; what is missing of the last sixteen are zeros.
template <class Fit>
void by_sixteen(const float* x, size_t n, int width, Fit&& fit) {
  alignas(64) float values[kMostFitted * kTile];
  for (size_t first = 0; first < n; first += kTile) {
    const size_t some = std::min<size_t>(kTile, n - first);
    if (some < kTile) std::fill(values, values + kTile * width, 0.0f);
    for (size_t block = 0; block < some; ++block)
      for (int j = 0; j < width; ++j) values[kTile * j + block] = x[(first + block) * width + j];
    fit(values, first, some);
  }
}

}  // namespace

void fit_lines(const Kernels& kernels, const float* x, size_t n, int width, int highest,
               bool lets_min_be_positive, float* scales, float* minimums) {
  by_sixteen(x, n, width, [&](const float* values, size_t first, size_t some) {
    float scale[kTile], minimum[kTile];
    kernels.fit_lines(values, width, highest, lets_min_be_positive, scale, minimum);
    std::copy(scale, scale + some, scales + first);
    std::copy(minimum, minimum + some, minimums + first);
  });
}

void fit_scales(const Kernels& kernels, const float* x, size_t n, int width, int lowest, float* scales) {
  by_sixteen(x, n, width, [&](const float* values, size_t first, size_t some) {
    float scale[kTile];
    kernels.fit_scales(values, width, lowest, scale);
    std::copy(scale, scale + some, scales + first);
  });
}

}  // namespace unspool
