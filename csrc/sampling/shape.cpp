// Cuts by the shape of the sorted probabilities: tail-free sampling and XTC.
#include "stages.h"

namespace unspool::sampling {

namespace {

constexpr size_t kFewExcluded = 2048;  // so many are taken out of the row one by one

}  // namespace

void apply_xtc(const Op& op, const RowJob& job, Survivors& survivors) {
  if (Noise(job, kXtcTags).uniform(0) >= op.a) return;  // token 0's number is the row's die
  const Sums sums = survivors.sums();
  auto& choices = survivors.near(sums.top, op.b - kSlack + sums.log_total());
  if (choices.size() < 2) return;
  const auto last = std::max_element(choices.begin(), choices.end(), before);
  const int32_t kept = last->id;
  std::vector<int32_t> excluded;
  for (const Candidate& candidate : choices)
    if (candidate.id != kept && !std::binary_search(op.ids.begin(), op.ids.end(), candidate.id))
      excluded.push_back(candidate.id);
  if (excluded.size() > kFewExcluded) survivors.list();
  survivors.ban(excluded.data(), excluded.size());
}

// The bends of what follows a candidate of the ratio r to the top add up to 2 r at most, because the ratios
// fall towards 0: a head says who stays unless a bend lies between the two shares that this leaves open.
void apply_tail_free(const Op& op, Survivors& survivors) {
  const double top = survivors.top();
  std::vector<double> ratios, bent;
  for (const size_t n_head : {(size_t)128, (size_t)1024, SIZE_MAX}) {
    auto& candidates = survivors.head(n_head);
    const bool all = survivors.listed() && candidates.size() == survivors.list().size();
    std::sort(candidates.begin(), candidates.end(), before);
    ratios.resize(candidates.size());
    for (size_t i = 0; i < ratios.size(); ++i) ratios[i] = exp(std::max(candidates[i].z - top, kDeepest));
    bent.clear();
    double sum = 0;
    for (size_t i = 0; i + 2 < ratios.size(); ++i)
      bent.push_back(sum += fabs(ratios[i] - 2 * ratios[i + 1] + ratios[i + 2]));
    const double beyond = all ? 0 : 2 * ratios.back() + 2 * ratios[ratios.size() - 2];
    if (all && (bent.empty() || bent.back() <= kSlack)) return;
    if (!all && sum <= 2 * kSlack) continue;
    const auto until = [&](double total) {
      return (size_t)(std::upper_bound(bent.begin(), bent.end(), (op.a + kSlack) * total) - bent.begin());
    };
    const size_t n = until(sum);
    if (!all && (n == bent.size() || until(sum + beyond) != n)) continue;
    std::vector<Candidate> kept(candidates.begin(), candidates.begin() + std::min(n + 1, candidates.size()));
    return survivors.become(kept);
  }
}

}  // namespace unspool::sampling
