#include "survivors.h"

#include <string.h>

#include <algorithm>

namespace unspool::sampling {

namespace {

// Logits so far below the largest weigh nothing. Not more than that is left out: where one token has nearly
// all the mass, the entropy is in the weights of the others.
constexpr double kNegligible = -708;

// Floats as integers in the same order, and back.
int32_t rank_of(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}
float at_rank(int32_t rank) {
  const int32_t bits = rank < 0 ? rank ^ 0x7fffffff : rank;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

}  // namespace

Survivors::Survivors(const Vectors& vectors, float* row, int n_vocab, Workspace& work)
    : vectors_(vectors), row_(row), n_vocab_(n_vocab), work_(work) {
  if ((int)work.slot.size() < n_vocab) work.slot.resize(n_vocab, 0);
  work.maxima.resize((n_vocab + kBlock - 1) / kBlock);
  work.found.resize(n_vocab);
  work.aside.clear();
  work.list.clear();
  work.taken.clear();
}

Survivors::~Survivors() {
  for (const auto& [id, x] : work_.taken) {
    row_[id] = x;
    work_.slot[id] = 0;
  }
}

void Survivors::index() {
  if (indexed_) return;
  sound_ &= vectors_.block_maxima(row_, n_vocab_, work_.maxima.data());
  row_top_ = *std::max_element(work_.maxima.begin(), work_.maxima.end());
  sound_ &= row_top_ < INFINITY;
  indexed_ = true;
}

void Survivors::fetch(const int32_t* ids, size_t n) const {
  for (size_t i = 0; i < n; ++i) {
    if (ids[i] < 0 || ids[i] >= n_vocab_) continue;
    __builtin_prefetch(row_ + ids[i], 1);
    __builtin_prefetch(work_.slot.data() + ids[i], 1);
  }
}

int32_t Survivors::slot_of(int32_t id) {
  if (id < 0 || id >= n_vocab_) return -1;
  int32_t& slot = work_.slot[id];
  if (slot == 0) {
    const float x = row_[id];
    if (listed_ || x == -INFINITY) return -1;
    sound_ &= x < INFINITY;  // false for NaN too
    work_.taken.emplace_back(id, x);
    work_.aside.push_back({mapped(x), id});
    row_[id] = -INFINITY;
    indexed_ = false;
    slot = (int32_t)work_.aside.size();
  }
  return slot - 1;
}

void Survivors::keep_only(const std::vector<int32_t>& ids) {
  std::vector<Candidate> kept;
  kept.reserve(ids.size());  // nothing may be thrown while slots are marked
  edit(ids.data(), ids.size(), [&](double z, size_t i) {
    kept.push_back({z, ids[i]});
    return -INFINITY;  // so that an id named twice counts once
  });
  index();  // a NaN that is not allowed is still one
  become(kept);
}

void Survivors::ban_unless_last(const std::vector<int32_t>& ids) {
  std::vector<Candidate> banned;
  banned.reserve(ids.size());
  edit(ids.data(), ids.size(), [&](double z, size_t i) {
    banned.push_back({z, ids[i]});
    return -INFINITY;
  });
  if (anyone()) return;
  if (listed_) return become(banned);
  for (const Candidate& candidate : banned) work_.aside[slot_of(candidate.id)].z = candidate.z;
}

void Survivors::map(const Map& step) {
  for (auto& candidate : listed_ ? work_.list : work_.aside)
    if (candidate.z > -INFINITY) candidate.z = step(candidate.z);
  if (!listed_)
    maps_.push_back(step);
  else
    bury();
}

void Survivors::bury() {
  const auto is_dead = [](const Candidate& candidate) { return !(candidate.z > -INFINITY); };
  work_.list.erase(std::remove_if(work_.list.begin(), work_.list.end(), is_dead), work_.list.end());
}

double Survivors::top() {
  double top = -INFINITY;
  for (const auto& candidate : listed_ ? work_.list : work_.aside) top = std::max(top, candidate.z);
  if (!listed_) top = std::max(top, (index(), row_top_ > -INFINITY ? mapped(row_top_) : -INFINITY));
  return top;
}

Candidate Survivors::best() {
  Candidate best = {-INFINITY, -1};
  for (const auto& candidate : listed_ ? work_.list : work_.aside)
    if (candidate.z > -INFINITY && (best.id < 0 || before(candidate, best))) best = candidate;
  if (listed_ || (index(), row_top_ == -INFINITY)) return best;
  // Several logits can map to one: the lowest id among those that map to the largest.
  const double z = mapped(row_top_);
  if (z < best.z) return best;
  const float least = maps_.empty() ? row_top_ : least_near(z, 0);
  for (size_t block = 0; block < work_.maxima.size(); ++block) {
    if (work_.maxima[block] < least) continue;
    int id = (int)block * kBlock;
    while (row_[id] < least) ++id;
    const Candidate first = {z, id};
    return best.id < 0 || before(first, best) ? first : best;
  }
  return best;
}

bool Survivors::anyone() {
  for (const auto& candidate : listed_ ? work_.list : work_.aside)
    if (candidate.z > -INFINITY) return true;
  if (!listed_)
    for (int id = 0; id < n_vocab_; ++id)
      if (row_[id] != -INFINITY && mapped(row_[id]) != -INFINITY) return true;
  return false;
}

size_t Survivors::count() {
  size_t n = 0;
  for (const auto& candidate : listed_ ? work_.list : work_.aside) n += candidate.z > -INFINITY;
  if (listed_) return n;
  if (!maps_.empty()) return list().size();  // what a map has sent to -inf is dead
  double sums[3] = {0, 0, 0};
  vectors_.moments(row_, n_vocab_, 0.0, sums);
  return n + (size_t)sums[0];
}

std::vector<double>& Survivors::weights_of(const std::vector<Candidate>& candidates, double top) {
  auto& weights = work_.weights;
  weights.resize(candidates.size());
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = candidates[i].z - top;
  vectors_.exponentials(weights.data(), (int)weights.size());
  for (size_t i = 0; i < weights.size(); ++i)
    if (candidates[i].z - top <= -708) weights[i] = 0;
  return weights;
}

Sums Survivors::sums() {
  if (!listed_ && maps_.size() > 1) list();
  const Candidate first = best();
  Sums sums = {first.z, 0, 0};
  const auto& candidates = listed_ ? work_.list : work_.aside;
  const auto& weights = weights_of(candidates, sums.top);
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (weights[i] == 0 || candidates[i].id == first.id) continue;
    sums.others += weights[i];
    sums.weighted += weights[i] * (candidates[i].z - sums.top);
  }
  if (listed_) return sums;

  // Weights of the row are summed relative to `zero`, the logit that the curve calls 0.
  index();
  Curve curve = {row_top_, 1, 0, 0};
  double zero = mapped(row_top_);
  if (!maps_.empty() && maps_[0].kind == Map::kSmooth) {
    zero = maps_[0].top;
    curve = {zero, 0, -maps_[0].a * maps_[0].b, maps_[0].a * maps_[0].c};
  } else if (!maps_.empty()) {
    curve.c1 = std::min(1 / maps_[0].a, 1e300);
  }
  const double lift = zero - sums.top;
  if (lift > 0) return list(), this->sums();  // the largest has been edited down: the curve's 0 is far above
  if (!(lift > kNegligible)) return sums;
  double in_row[2] = {0, 0};
  const float x_first = row_[first.id];
  row_[first.id] = -INFINITY;
  for (int block = 0; block < (int)work_.maxima.size(); ++block) {
    if (!(mapped(work_.maxima[block]) - sums.top > kNegligible)) continue;
    const int start = block * kBlock;
    vectors_.exp_sums(row_ + start, std::min(kBlock, n_vocab_ - start), curve, in_row);
  }
  row_[first.id] = x_first;
  const double factor = exp(lift);
  sums.others += factor * in_row[0];
  sums.weighted += factor * (in_row[1] + lift * in_row[0]);
  return sums;
}

// The least float32 whose z - top is at least `distance`, found among all floats: the maps are monotone.
float Survivors::least_near(double top, double distance) const {
  int64_t low = rank_of(-INFINITY), high = rank_of(INFINITY);  // the answer is in (low, high]
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (mapped(at_rank((int32_t)middle)) - top >= distance ? high : low) = middle;
  }
  return at_rank((int32_t)high);
}

void Survivors::collect(double top, double distance, std::vector<Candidate>& out) {
  index();
  const float least = least_near(top, distance);
  for (int block = 0; block < (int)work_.maxima.size(); ++block) {
    if (work_.maxima[block] < least) continue;
    const int start = block * kBlock, n = std::min(kBlock, n_vocab_ - start);
    const int found = vectors_.at_least(row_ + start, n, least, start, work_.found.data());
    for (int i = 0; i < found; ++i) {
      const int32_t id = work_.found[i];
      const double z = mapped(row_[id]);
      if (z > -INFINITY) out.push_back({z, id});
    }
  }
  for (const auto& candidate : work_.aside)
    if (candidate.z > -INFINITY && candidate.z - top >= distance) out.push_back(candidate);
}

void Survivors::keep_near(double top, double distance) {
  if (distance <= kDeepest) distance = -INFINITY;
  auto& list = work_.list;
  if (listed_) {
    const auto is_far = [=](const Candidate& c) { return !(c.z - top >= distance); };
    list.erase(std::remove_if(list.begin(), list.end(), is_far), list.end());
  } else {
    collect(top, distance, list);
    leave_row();
  }
}

void Survivors::leave_row() {
  listed_ = true;
  for (const auto& taken : work_.taken) work_.slot[taken.first] = 0;
}

std::vector<Candidate>& Survivors::list() {
  if (!listed_) keep_near(0, -INFINITY);
  return work_.list;
}

std::vector<Candidate>& Survivors::head(size_t m) {
  auto& head = work_.head;
  if (listed_ || m > work_.maxima.size()) {
    head = list();
    if (m < head.size()) {
      std::nth_element(head.begin(), head.begin() + (m - 1), head.end(), before);
      head.resize(m);
    }
    return head;
  }
  // The m-th largest of the blocks' maxima: so many logits at least are as large.
  index();
  work_.selected = work_.maxima;
  const auto mth = work_.selected.begin() + (m - 1);
  std::nth_element(work_.selected.begin(), mth, work_.selected.end(), [](float a, float b) { return a > b; });
  return *mth > -INFINITY ? near(mapped(*mth), 0) : near(0, -INFINITY);
}

std::vector<Candidate>& Survivors::near(double top, double distance) {
  if (distance <= kDeepest) distance = -INFINITY;
  auto& found = work_.head;
  found.clear();
  if (!listed_) {
    collect(top, distance, found);
  } else {
    for (const auto& candidate : work_.list)
      if (candidate.z > -INFINITY && candidate.z - top >= distance) found.push_back(candidate);
  }
  return found;
}

void Survivors::become(std::vector<Candidate>& chosen) {
  work_.list.swap(chosen);
  leave_row();
}

}  // namespace unspool::sampling
