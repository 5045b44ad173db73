// exp and tanh on sixteen lanes. Relative error of exp below 2e-7; no table, no branch.
#pragma once

namespace unspool {
namespace UNSPOOL_ISA {

// e^x with x clamped to [-87.3, 88.3]: n = round(x / ln 2), then a Taylor-like polynomial of degree 7 on
// the rest (Cephes coefficients), times 2^n.
static inline F f_exp(F x) {
  x = f_min(f_max(x, f_set1(-87.3f)), f_set1(88.3f));
  const I n = i_round(f_mul(x, f_set1(1.44269504088896341f)));
  const F nf = f_from_i(n);
  F r = f_fma(nf, f_set1(-0.693359375f), x);
  r = f_fma(nf, f_set1(2.12194440e-4f), r);
  F p = f_set1(1.9875691500e-4f);
  p = f_fma(p, r, f_set1(1.3981999507e-3f));
  p = f_fma(p, r, f_set1(8.3334519073e-3f));
  p = f_fma(p, r, f_set1(4.1665795894e-2f));
  p = f_fma(p, r, f_set1(1.6666665459e-1f));
  p = f_fma(p, r, f_set1(5.0000001201e-1f));
  p = f_fma(f_mul(p, r), r, f_add(r, f_set1(1.0f)));
  return f_mul(p, f_pow2(n));
}

// tanh x = 1 - 2 / (e^2x + 1); past |x| = 10 the result rounds to one. What is no number stays none: of two
// operands, minimum and maximum then give the second, and x times zero brings it past e^x.
static inline F f_tanh(F x) {
  x = f_min(f_set1(10.0f), f_max(f_set1(-10.0f), x));
  const F e = f_exp(f_add(x, x));
  return f_fma(x, f_zero(), f_sub(f_set1(1.0f), f_div(f_set1(2.0f), f_add(e, f_set1(1.0f)))));
}

}  // namespace UNSPOOL_ISA
}  // namespace unspool
