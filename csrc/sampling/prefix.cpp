// Cuts that keep the first survivors in some order, until they are so many or weigh so much.
//
// Only the part of the order that decides is ever brought into order: first a head of some hundred, and when
// that is not enough a weighted quickselect over all, which sorts nothing and is linear on average.
#include "stages.h"

namespace unspool::sampling {

namespace {

constexpr size_t kHead = 256;  // survivors that are looked at first

// A survivor in the order that a cut goes by, and what it weighs there.
struct Ranked {
  double key;  // ascending
  double weight;
  Candidate candidate;
};
bool ahead(const Ranked& a, const Ranked& b) {
  return a.key < b.key || (a.key == b.key && before(a.candidate, b.candidate));
}

// How many of items, in order, keep the running sum of weights, their own included, `open`. They are brought
// to the front, the one that follows them in order next to them, the rest in no order.
template <class Open>
size_t open_prefix(std::vector<Ranked>& items, Open&& open) {
  size_t first = 0, last = items.size();  // who closes it is in [first, last], and [last] follows those
  double sum = 0;                         // of [0, first)
  while (last - first > 64) {
    std::swap(items[first + (last - first) / 2], items[last - 1]);
    const Ranked pivot = items[last - 1];
    const auto middle = std::partition(items.begin() + first, items.begin() + last - 1,
                                       [&](const Ranked& item) { return ahead(item, pivot); });
    std::iter_swap(middle, items.begin() + last - 1);
    const size_t at = (size_t)(middle - items.begin());
    double until = sum;
    for (size_t i = first; i < at; ++i) until += items[i].weight;
    if (!open(until)) {
      last = at;
    } else if (!open(until + pivot.weight)) {
      return at;
    } else {
      sum = until + pivot.weight;
      first = at + 1;
    }
  }
  std::sort(items.begin() + first, items.begin() + last, ahead);
  while (first < last && open(sum + items[first].weight)) sum += items[first++].weight;
  return first;
}

// Of each candidate e^(z - top), and its place in order of logit.
void weigh(const std::vector<Candidate>& candidates, double top, const Vectors& vectors,
           std::vector<Ranked>& items) {
  std::vector<double> weights(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) weights[i] = std::max(candidates[i].z - top, kDeepest);
  vectors.exponentials(weights.data(), (int)weights.size());
  items.resize(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i)
    items[i] = {-candidates[i].z, candidates[i].z - top < -708 ? 0.0 : weights[i], candidates[i]};
}

void become_first(const std::vector<Ranked>& items, size_t n, Survivors& survivors) {
  std::vector<Candidate> kept(n);
  for (size_t i = 0; i < n; ++i) kept[i] = items[i].candidate;
  survivors.become(kept);
}

// Keep those in order of logit whose running sum of reweigh(weight, z - top) stays open, and `extra` more;
// one at least.
template <class Reweigh, class Open>
void keep_prefix(Survivors& survivors, const Vectors& vectors, double top, size_t extra, Reweigh&& reweigh,
                 Open&& open) {
  std::vector<Ranked> items;
  for (const size_t n_head : {kHead, 8 * kHead, SIZE_MAX}) {
    const auto& candidates = survivors.head(n_head);
    const bool all = survivors.listed() && candidates.size() == survivors.list().size();
    weigh(candidates, top, vectors, items);
    for (Ranked& item : items) item.weight = reweigh(item.weight, item.candidate.z - top);
    const size_t n = open_prefix(items, open);
    if (n == items.size() && !all) continue;
    return become_first(items, std::min(std::max(n + extra, (size_t)1), items.size()), survivors);
  }
}

void keep_mass(double p, Survivors& survivors, const Vectors& vectors) {
  const Sums sums = survivors.sums();
  const double enough = (p - kSlack) * sums.total;
  keep_prefix(
      survivors, vectors, sums.top, 1, [](double weight, double) { return weight; },
      [=](double mass) { return mass < enough; });
}

void keep_entropy(double share, Survivors& survivors, const Vectors& vectors) {
  const Sums sums = survivors.sums();
  const double log_total = log(sums.total), allowed = (share + kSlack) * sums.entropy();
  if (!(allowed > 0)) return keep_first(1, false, survivors);
  keep_prefix(
      survivors, vectors, sums.top, 0,
      [&](double weight, double d) { return weight > 0 ? (log_total - d) * weight / sums.total : 0.0; },
      [=](double held) { return held <= allowed; });
}

// Surprise within `reach` of the entropy: the candidates are few when the mass there is enough.
void keep_typical(const Op& op, Survivors& survivors, const Vectors& vectors) {
  const Sums sums = survivors.sums();
  const double entropy = sums.entropy(), log_total = log(sums.total), total = sums.total;
  const bool passes = op.flag;
  const double tau = op.a;
  std::vector<Ranked> items;
  for (const double reach : {2.0, 6.0, (double)INFINITY}) {
    const bool all = survivors.listed() || reach == INFINITY;
    weigh(all ? survivors.list() : survivors.near(sums.top, log_total - entropy - reach), sums.top, vectors, items);
    double mass = 0;
    size_t n_within = 0;
    for (Ranked& item : items) {
      const double surprise = log_total - std::max(item.candidate.z - sums.top, kDeepest);
      const double distance = fabs(surprise - entropy);
      item = {std::nearbyint(distance / kSlack), item.weight / total, item.candidate};
      if (distance > reach - 1e-3) continue;
      mass += item.weight;
      std::swap(item, items[n_within++]);
    }
    if (!all && mass <= tau + 2 * kSlack) continue;
    if (!all) items.resize(n_within);
    const size_t n = open_prefix(
        items, [=](double sum) { return passes ? sum <= tau + kSlack : sum < tau - kSlack; });
    size_t n_kept = std::min(n + 1, items.size());
    if (op.b > 0) {
      const double farthest = items[n_kept - 1].key;
      const auto end = std::partition(items.begin() + n_kept, items.end(),
                                      [=](const Ranked& item) { return item.key <= farthest; });
      n_kept = (size_t)(end - items.begin());
    }
    return become_first(items, n_kept, survivors);
  }
}

}  // namespace

void keep_first(size_t k, bool with_ties, Survivors& survivors) {
  if (k >= (size_t)survivors.n_vocab()) return;
  auto& head = survivors.head(k);
  if (head.size() >= k) {
    std::nth_element(head.begin(), head.begin() + (k - 1), head.end(), before);
    if (with_ties) return survivors.keep_near(head[k - 1].z, 0);
    head.resize(k);
  }
  survivors.become(head);
}

void apply_prefix(const Op& op, Survivors& survivors, const Vectors& vectors) {
  switch (op.kind) {
    case OpKind::kTopK:
      return keep_first((size_t)op.a, op.flag, survivors);
    case OpKind::kTopP:
      return keep_mass(op.a, survivors, vectors);
    case OpKind::kTopH:
      if (op.b > 0) keep_first((size_t)op.b, false, survivors);
      return keep_entropy(op.a, survivors, vectors);
    default:
      return keep_typical(op, survivors, vectors);
  }
}

}  // namespace unspool::sampling
