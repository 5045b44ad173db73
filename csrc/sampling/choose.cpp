#include "choose.h"

#include <algorithm>

namespace unspool::sampling {

namespace {

constexpr double kRounding = 1e-9;  // far above float64's error on values that can decide
constexpr int kFewListed = 24;      // one in so many of the vocabulary: noise is drawn one by one

// The best score so far, z - top + noise. A candidate is looked at closely only when its noise could lift it
// above that.
class Contest {
 public:
  Contest(double top, const Noise& noise) : top_(top), noise_(noise), below_(gumbel_below()) {}

  void enter(const Candidate& candidate, unsigned coarse) {
    const double z = candidate.z - top_;
    if (z + below_[coarse] < best_ - kRounding) return;
    const double tail = noise_.upper_tail(candidate.id, coarse);
    // -ln(-ln(1 - t)) <= -ln t: cheaper than the noise, and nearly equal to it where noise is large.
    if (coarse == 0 && tail > exp(z - best_ + kRounding)) return;
    const double score = z + gumbel_of(tail);
    if (score > best_ || (score == best_ && candidate.id < winner_.id)) best_ = score, winner_ = candidate;
  }
  void enter(const Candidate& candidate) { enter(candidate, noise_.coarse(candidate.id)); }

  // The largest coarse byte with which a logit of z can still win; -1: none.
  int highest_coarse(double z) const {
    const double needed = best_ - kRounding - (z - top_);
    if (below_[1] < needed) return below_[0] < needed ? -1 : 0;
    return (int)(std::partition_point(below_, below_ + 256, [&](double b) { return b >= needed; }) - below_) -
           1;
  }
  Candidate winner() const { return winner_; }

 private:
  const double top_;
  const Noise& noise_;
  const double* below_;
  double best_ = -INFINITY;
  Candidate winner_ = {-INFINITY, -1};
};

void enter_row(Survivors& survivors, const Noise& noise, const Vectors& vectors, Contest& contest) {
  const auto& maxima = survivors.maxima();
  const float* row = survivors.row();
  uint8_t bytes[kBlock];
  uint64_t open[2];
  for (int block = 0; block < (int)maxima.size(); ++block) {
    if (maxima[block] == -INFINITY) continue;
    const int limit = contest.highest_coarse(survivors.mapped(maxima[block]));
    if (limit < 0) continue;
    vectors.coarse(noise.coarse_key(), block, limit, bytes, open);
    for (int half = 0; half < 2; ++half)
      for (uint64_t mask = open[half]; mask; mask &= mask - 1) {
        const int at = 64 * half + __builtin_ctzll(mask), id = block * kBlock + at;
        if (id >= survivors.n_vocab()) break;
        if (row[id] > -INFINITY) contest.enter({survivors.mapped(row[id]), id}, bytes[at]);
      }
  }
}

void enter_long_list(const std::vector<Candidate>& list, int n_vocab, const Noise& noise,
                     std::vector<uint8_t>& bytes, const Vectors& vectors, Contest& contest) {
  bytes.resize(((size_t)n_vocab + kBlock - 1) / kBlock * kBlock);
  uint64_t open[2];
  for (int start = 0; start < n_vocab; start += kBlock)
    vectors.coarse(noise.coarse_key(), start / kBlock, 255, &bytes[start], open);
  for (const Candidate& candidate : list) contest.enter(candidate, bytes[candidate.id]);
}

}  // namespace

Candidate draw(Survivors& survivors, const Noise& noise, const Vectors& vectors) {
  const Candidate best = survivors.best();
  if (best.id < 0) return best;
  Contest contest(best.z, noise);
  contest.enter(best);
  if (survivors.listed()) {
    const auto& list = survivors.list();
    if (list.size() > (size_t)survivors.n_vocab() / kFewListed)
      enter_long_list(list, survivors.n_vocab(), noise, survivors.workspace().coarse, vectors, contest);
    else
      for (const Candidate& candidate : list)
        if (candidate.z > -INFINITY) contest.enter(candidate);
  } else {
    for (const Candidate& candidate : survivors.aside())
      if (candidate.z > -INFINITY) contest.enter(candidate);
    enter_row(survivors, noise, vectors, contest);
  }
  return contest.winner();
}

}  // namespace unspool::sampling
