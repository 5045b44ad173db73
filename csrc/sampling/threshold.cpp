// Cuts at a distance from the largest logit: who stays needs no sorting at all.
#include "stages.h"

namespace unspool::sampling {

namespace {

// Distances from the top have the mean and deviation of the logits. The sums are over the row and what is
// held aside; only where a map bends or scales out of range are they taken from a list.
void keep_within_deviations(double n, Survivors& survivors) {
  const auto& maps = survivors.maps();
  const bool plain = maps.empty() || (maps.size() == 1 && maps[0].kind != Map::kSmooth &&
                                      maps[0].a > 1e-30 && maps[0].a < 1e30);
  const double top = survivors.top();
  double count = 0, first = 0, second = 0;
  double widest = 1;
  const auto add = [&](double distance) {
    const double d = distance / widest;
    count += 1, first += d, second += d * d;
  };
  if (!plain || survivors.listed()) {
    const auto& list = survivors.list();
    widest = 0;
    for (const auto& candidate : list) widest = std::max(widest, std::min(top - candidate.z, -kDeepest));
    if (widest == 0) return;
    for (const auto& candidate : list) add(std::min(top - candidate.z, -kDeepest));
  } else {
    for (const auto& candidate : survivors.aside())
      if (candidate.z > -INFINITY) add(std::min(top - candidate.z, -kDeepest));
    double sums[3] = {0, 0, 0};  // of x - x_top over the row
    if (survivors.row_top() > -INFINITY) survivors.row_moments(survivors.row_top(), sums);
    const double scale = maps.empty() ? 1 : 1 / maps[0].a;
    const double lift = sums[0] > 0 ? top - survivors.mapped(survivors.row_top()) : 0;
    // distance = lift - scale * (x - x_top)
    count += sums[0];
    first += sums[0] * lift - scale * sums[1];
    second += sums[0] * lift * lift - 2 * lift * scale * sums[1] + scale * scale * sums[2];
  }
  const double mean = first / count, variance = std::max(second / count - mean * mean, 0.0);
  survivors.keep_near(top, -(n + kSlack) * sqrt(variance) * widest);
}

}  // namespace

void keep_likely(double ln_p, double log_total, bool tied_tops, Survivors& survivors) {
  const double top = survivors.top(), distance = ln_p - kSlack + log_total;
  if (distance <= 0) return survivors.keep_near(top, distance);
  if (tied_tops) return survivors.keep_near(top, 0);
  std::vector<Candidate> alone = {survivors.best()};
  survivors.become(alone);
}

void apply_threshold(const Op& op, Survivors& survivors) {
  if (op.kind == OpKind::kTopNSigma) return keep_within_deviations(op.a, survivors);
  if (op.kind == OpKind::kMinP) return survivors.keep_near(survivors.top(), op.a - kSlack);
  const Sums sums = survivors.sums();
  const double log_total = log(sums.total);  // and -log_total is the log-probability of the top
  switch (op.kind) {
    case OpKind::kEta:
      return keep_likely(std::min(op.a, op.a / 2 - sums.entropy()), log_total, op.flag, survivors);
    case OpKind::kTopA:
      return keep_likely(op.a - 2 * log_total, log_total, op.flag, survivors);
    default:
      return keep_likely(op.a, log_total, op.flag, survivors);
  }
}

}  // namespace unspool::sampling
