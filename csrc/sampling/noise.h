// Draws as functions of their coordinates: rng.py, digit for digit.
#pragma once
#include <math.h>
#include <stdint.h>

#include "program.h"
#include "vectors.h"

namespace unspool::sampling {

// What one stage draws from: the CRC-32 of its name with "/coarse" and "/fine".
struct StageTags {
  uint32_t coarse, fine;
};
constexpr StageTags kChooseTags = {0x6124c18f, 0xb3559e37};
constexpr StageTags kXtcTags = {0xb4eddf3c, 0x50acefdb};

class Noise {
 public:
  Noise(const RowJob& job, StageTags tags);

  const NoiseKey& coarse_key() const { return key_; }
  unsigned coarse(int32_t id) const;                     // 1 - u lies in (coarse, coarse + 1) / 256
  double upper_tail(int32_t id, unsigned coarse) const;  // 1 - u, unrounded
  double uniform(int32_t id) const { return 1.0 - upper_tail(id, coarse(id)); }

 private:
  NoiseKey key_;
  uint32_t fine_tag_;
};

inline double gumbel_of(double upper_tail) {
  return -log(-log1p(-upper_tail));
}

// A token whose coarse byte is c has Gumbel noise below gumbel_below()[c].
const double* gumbel_below();

}  // namespace unspool::sampling
