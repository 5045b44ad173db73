// Cuts that keep the first survivors in some order, until they are so many or weigh so much.
//
// Only the part of the order that decides is ever brought into order: first a head of some hundred, and when
// that is not enough a weighted quickselect over all, which sorts nothing and is linear on average.
#include "stages.h"

namespace unspool::sampling {

namespace {

constexpr size_t kHead = 256;     // survivors that are looked at first
constexpr size_t kSlices = 2048;  // of logits, where all are looked at

bool ahead(const Ranked& a, const Ranked& b) {
  return a.key < b.key || (a.key == b.key && before(a.candidate, b.candidate));
}

// How many of items, in order, keep the running sum of weights from `sum` on, their own included, `open`.
// They are brought to the front, the one that follows them in order next to them, the rest in no order.
template <class Open>
size_t open_prefix(std::vector<Ranked>& items, double sum, Open&& open) {
  size_t first = 0, last = items.size();  // who closes it is in [first, last]; `sum` is that of [0, first)
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

void become_first(const std::vector<Ranked>& items, size_t n, Survivors& survivors) {
  auto& kept = survivors.workspace().kept;
  kept.clear();
  for (size_t i = 0; i < n; ++i) kept.push_back(items[i].candidate);
  survivors.become(kept);
}

// Which of the slices of a 32nd below the top a logit is in; everything far away is in the last.
size_t slice_of(double z, double top) {
  return (size_t)std::min((top - z) * 32, (double)(kSlices - 1));
}

// Keep those in order of logit whose running sum of reweigh(weight, z - top) stays open, and `extra` more;
// one at least.
template <class Reweigh, class Open>
void keep_prefix(Survivors& survivors, double top, size_t extra, Reweigh&& reweigh, Open&& open) {
  auto& items = survivors.workspace().items;
  for (const size_t n_head : {kHead, 8 * kHead, SIZE_MAX}) {
    const bool all = n_head == SIZE_MAX;
    if (!all && !survivors.has_quick_head(n_head)) continue;
    const auto& candidates = all ? survivors.list() : survivors.head(n_head);
    auto& weights = survivors.weights_of(candidates, top);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = reweigh(weights[i], candidates[i].z - top);
    // Of very many, whole slices are in or out, and only the one that closes the sum is put in order.
    auto& kept = survivors.workspace().kept;
    kept.clear();
    double sum = 0;
    size_t closing = 0;
    const bool sliced = candidates.size() > 8 * kHead;
    if (sliced) {
      std::vector<double> slices(kSlices);
      for (size_t i = 0; i < weights.size(); ++i) slices[slice_of(candidates[i].z, top)] += weights[i];
      while (closing + 1 < kSlices && open(sum + slices[closing])) sum += slices[closing++];
    }
    items.clear();
    for (size_t i = 0; i < weights.size(); ++i) {
      const size_t slice = sliced ? slice_of(candidates[i].z, top) : closing;
      if (slice < closing) kept.push_back(candidates[i]);
      if (slice == closing) items.push_back({-candidates[i].z, weights[i], candidates[i]});
    }
    const size_t n = open_prefix(items, sum, open);
    const bool whole = survivors.listed() && candidates.size() == survivors.list().size();
    if (n == items.size() && !whole) continue;  // the head was too short
    const size_t n_more = std::min(kept.empty() ? std::max(n + extra, (size_t)1) : n + extra, items.size());
    for (size_t i = 0; i < n_more; ++i) kept.push_back(items[i].candidate);
    return survivors.become(kept);
  }
}

void keep_mass(double p, Survivors& survivors) {
  const Sums sums = survivors.sums();
  const double enough = (p - kSlack) * sums.total();
  keep_prefix(
      survivors, sums.top, 1, [](double weight, double) { return weight; },
      [=](double mass) { return mass < enough; });
}

void keep_entropy(double share, Survivors& survivors) {
  const Sums sums = survivors.sums();
  const double log_total = sums.log_total(), allowed = (share + kSlack) * sums.entropy();
  if (!(allowed > 0)) return keep_first(1, false, survivors);
  keep_prefix(
      survivors, sums.top, 0,
      [&](double weight, double d) { return weight > 0 ? (log_total - d) * weight / sums.total() : 0.0; },
      [=](double held) { return held <= allowed; });
}

// Surprise within `reach` of the entropy: the candidates are few when the mass there is enough.
void keep_typical(const Op& op, Survivors& survivors) {
  const Sums sums = survivors.sums();
  const double entropy = sums.entropy(), log_total = sums.log_total(), total = sums.total();
  const bool passes = op.flag;
  const double tau = op.a;
  auto& items = survivors.workspace().items;
  for (const double reach : {2.0, 6.0, (double)INFINITY}) {
    const bool all = survivors.listed() || reach == INFINITY;
    const auto& candidates = all ? survivors.list() : survivors.near(sums.top, log_total - entropy - reach);
    const auto& weights = survivors.weights_of(candidates, sums.top);
    double mass = 0;
    items.clear();
    for (size_t i = 0; i < candidates.size(); ++i) {
      const double distance = fabs(log_total - std::max(candidates[i].z - sums.top, kDeepest) - entropy);
      if (!all && distance > reach - 1e-3) continue;
      items.push_back({std::nearbyint(distance / kSlack), weights[i] / total, candidates[i]});
      mass += items.back().weight;
    }
    if (!all && mass <= tau + 2 * kSlack) continue;
    const size_t n =
        open_prefix(items, 0, [=](double sum) { return passes ? sum <= tau + kSlack : sum < tau - kSlack; });
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

void apply_prefix(const Op& op, Survivors& survivors) {
  switch (op.kind) {
    case OpKind::kTopK:
      return keep_first((size_t)op.a, op.flag, survivors);
    case OpKind::kTopP:
      return keep_mass(op.a, survivors);
    case OpKind::kTopH:
      if (op.b > 0) keep_first((size_t)op.b, false, survivors);
      return keep_entropy(op.a, survivors);
    default:
      return keep_typical(op, survivors);
  }
}

}  // namespace unspool::sampling
