// The scale, and perhaps the offset, with which small integers come nearest to the values of blocks: the fast
// twin of src/unspool/models/weights/fit.py, which says how and why. The same bits: each lane is a block,
// sums run over its values in ascending order, and nothing is fused.
#pragma once
#include <math.h>

#include <initializer_list>

namespace unspool {
namespace UNSPOOL_ISA {

constexpr double kStretches[] = {-1.2, -0.9, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9};

// 1 / a, and 0 where a is as good as 0.
static inline F inverse_or_zero(F a) {
  const F size = f_abs(a), few = f_set1(1e-30f), one = f_set1(1.0f);
  return f_where_less(size, few, f_zero(), f_div(one, f_where_less(size, few, one, a)));
}

static inline F rounded_within(F a, F lowest, F highest) {
  return f_min(f_max(f_from_i(i_round(a)), lowest), highest);
}

// x: [width][16], value by value of 16 blocks. Integers are in [0, highest].
static void fit_lines(const float* x, int width, int highest, bool lets_min_be_positive, float* scales,
                      float* minimums) {
  const F zero = f_zero(), top = f_set1((float)highest), n = f_set1((float)width);
  F low = f_load(x), high = low, sum_x = zero;
  for (int j = 0; j < width; ++j) {
    const F value = f_load(x + kTile * j);
    low = f_min(low, value);
    high = f_max(high, value);
    sum_x = f_add(sum_x, value);
  }
  if (!lets_min_be_positive) low = f_min(low, zero);
  const F per_level = inverse_or_zero(f_sub(high, low));
  F best_scale = zero, best_minimum = low, best_error = f_set1(INFINITY);
  float quants[kMostFitted * kTile];
  for (const double stretch : kStretches) {
    const F factor = f_mul(f_set1((float)(highest + stretch)), per_level);
    F sum_q = zero, sum_qq = zero, sum_qx = zero;
    for (int j = 0; j < width; ++j) {
      const F value = f_load(x + kTile * j);
      const F q = rounded_within(f_mul(f_sub(value, low), factor), zero, top);
      f_store(quants + kTile * j, q);
      sum_q = f_add(sum_q, q);
      sum_qq = f_add(sum_qq, f_mul(q, q));
      sum_qx = f_add(sum_qx, f_mul(q, value));
    }
    // Not above zero where all integers are the same.
    const F determinant = f_sub(f_mul(n, sum_qq), f_mul(sum_q, sum_q));
    const auto if_line = [&](F line, F other) { return f_where_less(zero, determinant, line, other); };
    const F safe = if_line(determinant, f_set1(1.0f));
    F scale = if_line(f_div(f_sub(f_mul(n, sum_qx), f_mul(sum_x, sum_q)), safe), zero);
    F minimum = if_line(f_div(f_sub(f_mul(sum_qq, sum_x), f_mul(sum_q, sum_qx)), safe), low);
    if (!lets_min_be_positive) {
      const F through_zero = f_mul(sum_qx, inverse_or_zero(sum_qq));
      scale = if_line(f_where_less(zero, minimum, through_zero, scale),
                      f_where_less(low, zero, scale, through_zero));
      minimum = f_min(minimum, zero);
    }
    scale = f_max(scale, zero);
    F error = zero;
    for (int j = 0; j < width; ++j) {
      const F fitted = f_add(f_mul(f_load(quants + kTile * j), scale), minimum);
      const F off = f_sub(fitted, f_load(x + kTile * j));
      error = f_add(error, f_mul(off, off));
    }
    best_scale = f_where_less(error, best_error, scale, best_scale);
    best_minimum = f_where_less(error, best_error, minimum, best_minimum);
    best_error = f_min(error, best_error);
  }
  f_store(scales, best_scale);
  f_store(minimums, best_minimum);
}

// The same without an offset; integers are in [lowest, -lowest - 1], and the scale has either sign.
static void fit_scales(const float* x, int width, int lowest, float* scales) {
  const F zero = f_zero(), bottom = f_set1((float)lowest), top = f_set1((float)(-lowest - 1));
  F largest = f_load(x);
  for (int j = 1; j < width; ++j) {
    const F value = f_load(x + kTile * j);
    largest = f_where_less(f_abs(largest), f_abs(value), value, largest);
  }
  const F per_level = inverse_or_zero(largest);
  F best_scale = zero, best_gain = zero;
  for (const int end : {lowest, -lowest - 1})
    for (const double stretch : kStretches) {
      const F factor = f_mul(f_set1((float)(end < 0 ? end - stretch : end + stretch)), per_level);
      F sum_qq = zero, sum_qx = zero;
      for (int j = 0; j < width; ++j) {
        const F value = f_load(x + kTile * j);
        const F q = rounded_within(f_mul(value, factor), bottom, top);
        sum_qq = f_add(sum_qq, f_mul(q, q));
        sum_qx = f_add(sum_qx, f_mul(q, value));
      }
      const F scale = f_mul(sum_qx, inverse_or_zero(sum_qq)), gain = f_mul(sum_qx, scale);
      best_scale = f_where_less(best_gain, gain, scale, best_scale);
      best_gain = f_max(best_gain, gain);
    }
  f_store(scales, best_scale);
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
