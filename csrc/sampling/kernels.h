// Included once per instruction set: the vector functions and their table.
#pragma once
#include <math.h>

#include "simd.h"
#include "vectors.h"

namespace unspool::sampling {
namespace UNSPOOL_ISA {

template <int BYTES>
struct Floats {
  typedef float type __attribute__((vector_size(BYTES)));
};

// The largest lane, none of which is NaN: by halves, so that few comparisons wait for each other.
template <int BYTES>
static inline float largest_lane(typename Floats<BYTES>::type a) {
  if constexpr (BYTES == 8) {
    return a[1] > a[0] ? a[1] : a[0];
  } else {
    typename Floats<BYTES / 2>::type low, high;
    memcpy(&low, &a, sizeof low);
    memcpy(&high, (const char*)&a + sizeof low, sizeof high);
    return largest_lane<BYTES / 2>(high > low ? high : low);
  }
}

static bool block_maxima(const float* x, int n, float* maxima) {
  I unordered = {};
  bool odd = false;
  for (int start = 0; start < n; start += kBlock) {
    float largest = -INFINITY;
    if (n - start >= kBlock) {
      F best0 = load<F>(x + start), best1 = load<F>(x + start + kFloats);
      unordered |= (best0 != best0) | (best1 != best1);
      for (int i = 2 * kFloats; i < kBlock; i += 2 * kFloats) {
        const F a = load<F>(x + start + i), b = load<F>(x + start + i + kFloats);
        unordered |= (a != a) | (b != b);
        best0 = a > best0 ? a : best0;
        best1 = b > best1 ? b : best1;
      }
      best0 = best1 > best0 ? best1 : best0;
      largest = largest_lane<kBytes>(best0);
    } else {
      for (int i = start; i < n; ++i) {
        odd |= x[i] != x[i];
        largest = x[i] > largest ? x[i] : largest;
      }
    }
    maxima[start / kBlock] = largest;
  }
  for (int i = 0; i < kFloats; ++i) odd |= unordered[i] != 0;
  return !odd;
}

static inline Narrow narrow_at(const float* x, int i, int n) {
  if (n - i >= kDoubles) return load<Narrow>(x + i);
  float values[kDoubles];
  for (int j = 0; j < kDoubles; ++j) values[j] = i + j < n ? x[i + j] : -INFINITY;
  return load<Narrow>(values);
}

static double sum_of(D a) {
  double sum = 0;
  for (int i = 0; i < kDoubles; ++i) sum += a[i];
  return sum;
}

static void exp_sums(const float* x, int n, const Curve& curve, double* sums) {
  const D farthest = set1(-1e40), least = set1(-708.0);  // -inf times 0 is no number; y e^y needs a finite y
  D total = {}, weighted = {};
  for (int i = 0; i < n; i += kDoubles) {
    D d = widen(narrow_at(x, i, n)) - curve.top;
    d = d > farthest ? d : farthest;
    D y = d * (curve.c1 + d * (curve.c2 + d * curve.c3));
    const L counts = y > least;
    y = (D)((L)y & counts);
    const D e = (D)((L)exp_of(y) & counts);
    total += e;
    weighted += e * y;
  }
  sums[0] += sum_of(total);
  sums[1] += sum_of(weighted);
}

static void moments(const float* x, int n, double about, double* sums) {
  const D one = set1(1.0);
  D count = {}, first = {}, second = {};
  for (int i = 0; i < n; i += kDoubles) {
    const D value = widen(narrow_at(x, i, n));
    const L alive = value > set1(-INFINITY);
    const D d = (D)((L)(value - about) & alive);
    count += (D)((L)one & alive);
    first += d;
    second += d * d;
  }
  sums[0] += sum_of(count);
  sums[1] += sum_of(first);
  sums[2] += sum_of(second);
}

static int at_least(const float* x, int n, float t, int base, int32_t* ids) {
  int found = 0, i = 0;
  for (const F limit = f_set1(t); i + kFloats <= n; i += kFloats)
    for (unsigned mask = mask_at_least(load<F>(x + i), limit); mask; mask &= mask - 1)
      ids[found++] = base + i + __builtin_ctz(mask);
  for (; i < n; ++i)
    if (x[i] >= t) ids[found++] = base + i;
  return found;
}

static void exponentials(double* y, int n) {
  int i = 0;
  for (; i + kDoubles <= n; i += kDoubles) store(y + i, exp_of(load<D>(y + i)));
  if (i < n) {
    double values[kDoubles] = {0};
    for (int j = i; j < n; ++j) values[j - i] = y[j];
    store(values, exp_of(load<D>(values)));
    for (int j = i; j < n; ++j) y[j] = values[j - i];
  }
}

// Philox4x32-10, a counter a lane, of which only the low 32 bits of each 64 count: what the products leave
// above them is never looked at.
static void coarse(const NoiseKey& key, int block, int limit, uint8_t* bytes, uint64_t* at_most) {
  constexpr int kCounters = kBlock / 16;
  static_assert(kCounters % kDoubles == 0, "a block of tokens is whole vectors of counters");
  for (int start = 0; start < kCounters; start += kDoubles) {
    U c0 = {}, c1 = u_set1(key.position), c2 = u_set1(key.branch), c3 = u_set1(key.tag);
    for (int i = 0; i < kDoubles; ++i) c0[i] = (uint64_t)block * kCounters + start + i;
    uint32_t k0 = key.key0, k1 = key.key1;
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const U p0 = mul_low(c0, u_set1(0xD2511F53u)), p1 = mul_low(c2, u_set1(0xCD9E8D57u));
      c0 = (p1 >> 32) ^ c1 ^ u_set1(k0);
      c2 = (p0 >> 32) ^ c3 ^ u_set1(k1);
      c1 = p1;
      c3 = p0;
    }
    const U low = (c0 & 0xffffffffu) | (c1 << 32), high = (c2 & 0xffffffffu) | (c3 << 32);
    for (int i = 0; i < kDoubles; ++i) {
      const uint64_t words[2] = {low[i], high[i]};
      for (int b = 0; b < 16; ++b) bytes[16 * (start + i) + b] = (uint8_t)(words[b / 8] >> (8 * (b % 8)));
    }
  }
  at_most[0] = mask_at_most(bytes, limit);
  at_most[1] = mask_at_most(bytes + 64, limit);
}

static const Vectors kTable = {UNSPOOL_ISA_NAME, block_maxima, exp_sums, moments,
                               at_least,         exponentials, coarse};

}  // namespace UNSPOOL_ISA
}  // namespace unspool::sampling
