// Scales for blocks of weights that are quantized: see src/unspool/models/weights/fit.py.
#pragma once
#include <stddef.h>

#include "kernels.h"

namespace unspool {

// Of n blocks of `width` values each, at most kMostFitted, in a row: the scale and the minimum of each.
void fit_lines(const Kernels& kernels, const float* x, size_t n, int width, int highest,
               bool lets_min_be_positive, float* scales, float* minimums);
void fit_scales(const Kernels& kernels, const float* x, size_t n, int width, int lowest, float* scales);

}  // namespace unspool
