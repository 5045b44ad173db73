// Cuts at a distance from the largest logit: who stays needs no sorting at all.
#include "stages.h"

namespace unspool::sampling {

namespace {

constexpr double kFar = 1e60;  // distances up to here can be squared and summed as they are

struct Spread {
  double count = 0, first = 0, second = 0;  // of distances from the top
  void add(double distance) { count += 1, first += distance, second += distance * distance; }
  double deviation() const {
    const double mean = first / count;
    return sqrt(std::max(second / count - mean * mean, 0.0));
  }
};

// From the row's moments and the few held aside; false where a map bends, or scales out of range.
bool spread_of_row(Survivors& survivors, double top, Spread& spread) {
  const auto& maps = survivors.maps();
  const double row_top = survivors.row_top();
  if (survivors.listed() || maps.size() > 1 || row_top == -INFINITY) return false;
  if (!maps.empty() && (maps[0].kind == Map::kSmooth || maps[0].a < 1e-9 || maps[0].a > 1e9)) return false;
  const double scale = maps.empty() ? 1 : 1 / maps[0].a, lift = top - survivors.mapped(row_top);
  if (lift > kFar) return false;
  for (const auto& candidate : survivors.aside()) {
    if (!(candidate.z > -INFINITY)) continue;
    if (top - candidate.z > kFar) return false;
    spread.add(top - candidate.z);
  }
  double sums[3] = {0, 0, 0};  // of x - x_top; distance = lift - scale * (x - x_top)
  survivors.row_moments(row_top, sums);
  spread.count += sums[0];
  spread.first += sums[0] * lift - scale * sums[1];
  spread.second += sums[0] * lift * lift - 2 * lift * scale * sums[1] + scale * scale * sums[2];
  return true;
}

// Distances from the top have the deviation of the logits.
void keep_within_deviations(double n, Survivors& survivors) {
  const double top = survivors.top();
  Spread spread;
  if (spread_of_row(survivors, top, spread))
    return survivors.keep_near(top, -(n + kSlack) * spread.deviation());
  const auto& list = survivors.list();
  double widest = 0;  // the unit, so that no square overflows or vanishes
  for (const auto& candidate : list) widest = std::max(widest, std::min(top - candidate.z, -kDeepest));
  if (widest == 0) return;
  spread = {};
  for (const auto& candidate : list) spread.add(std::min(top - candidate.z, -kDeepest) / widest);
  survivors.keep_near(top, -(n + kSlack) * spread.deviation() * widest);
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
  const double log_total = sums.log_total();  // and -log_total is the log-probability of the top
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
