#include "noise.h"

namespace unspool::sampling {

namespace {

// Philox4x32-10; the words of the counter are replaced by the random ones.
void philox(uint32_t k0, uint32_t k1, uint32_t* c) {
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const uint64_t p0 = (uint64_t)c[0] * 0xD2511F53u, p1 = (uint64_t)c[2] * 0xCD9E8D57u;
    c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
    c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[1] = (uint32_t)p1;
    c[3] = (uint32_t)p0;
  }
}

struct Below {
  double values[256];
  Below() {
    values[0] = gumbel_of(0x1p-42);
    for (int c = 1; c < 256; ++c) values[c] = gumbel_of(c / 256.0);
  }
};

}  // namespace

const double* gumbel_below() {
  static const Below below;
  return below.values;
}

Noise::Noise(const RowJob& job, StageTags tags)
    : key_{(uint32_t)job.seed, (uint32_t)(job.seed >> 32), job.position, job.branch, tags.coarse},
      fine_tag_(tags.fine) {}

unsigned Noise::coarse(int32_t id) const {
  uint32_t words[4] = {(uint32_t)id >> 4, key_.position, key_.branch, key_.tag};
  philox(key_.key0, key_.key1, words);
  return words[(id >> 2) & 3] >> (8 * (id & 3)) & 0xff;
}

double Noise::upper_tail(int32_t id, unsigned coarse) const {
  uint32_t words[4] = {(uint32_t)id >> 2, key_.position, key_.branch, fine_tag_};
  philox(key_.key0, key_.key1, words);
  const uint64_t bits = (uint64_t)coarse << 32 | words[id & 3];
  return ((double)bits + 0.5) * 0x1p-40;
}

}  // namespace unspool::sampling
