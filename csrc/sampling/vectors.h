// The table of vector functions that each instruction set fills in. Sums may round differently on
// different sets; which values are met never depends on how many rows or threads there are.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace unspool::sampling {

constexpr int kBlock = 128;  // tokens: a row is indexed by the largest logit of each block

// A monotone map from logits to scaled differences: d = x - top, y = d (c1 + d (c2 + d c3)).
struct Curve {
  double top;
  double c1, c2, c3;
};

// Philox's key and the words of its counter that are the same for a whole row and stage.
struct NoiseKey {
  uint32_t key0, key1;
  uint32_t position, branch, tag;
};

struct Vectors {
  const char* name;

  // The largest of each block of x (n,) to maxima (blocks,); false when one is NaN.
  bool (*block_maxima)(const float* x, int n, float* maxima);
  // Adds the sum of e^y to sums[0] and of y e^y to sums[1] over x (n,), where y is above -708.
  void (*exp_sums)(const float* x, int n, const Curve& curve, double* sums);
  // Adds to sums[0..2] how many of x (n,) are above -inf, and over these the sums of x - about and its
  // square.
  void (*moments)(const float* x, int n, double about, double* sums);
  // base + index of each of x (n,) that is >= t, ascending, to ids; returns how many.
  int (*at_least)(const float* x, int n, float t, int base, int32_t* ids);
  // e^y in place for y (n,), clamped to [-708, 709].
  void (*exponentials)(double* y, int n);
  // The coarse bytes (rng.py) of the tokens of a block, (kBlock,), and a bit for each that is <= limit.
  void (*coarse)(const NoiseKey& key, int block, int limit, uint8_t* bytes, uint64_t* at_most);
};

const Vectors* vectors_avx512();  // null when not built for this processor family
const Vectors* vectors_avx2();
const Vectors* vectors_portable();

// Of the instruction set with this name; the name is one that select_kernels knows and this machine runs.
const Vectors* vectors_named(const char* name);

}  // namespace unspool::sampling
