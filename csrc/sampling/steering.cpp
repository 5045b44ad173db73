// Stages that learn from the chosen token: mirostat and adaptive-p.
#include "stages.h"

namespace unspool::sampling {

namespace {

constexpr double kLn2 = 0.693147180559945309417;
constexpr size_t kZipf = 100;  // candidates from which mirostat 1 estimates the exponent

// mirostat.zipf_k, of the first in order (at most kZipf) of n candidates.
size_t zipf_k(std::vector<Candidate> head, size_t n, double mu) {
  if (n == 1) return 1;
  std::sort(head.begin(), head.end(), before);
  head.resize(std::min(head.size(), kZipf));
  const double top = head[0].z;
  double products = 0, squares = 0;
  for (size_t i = 0; i + 1 < head.size(); ++i) {
    const double t = log((double)(i + 2) / (double)(i + 1));
    products += t * (std::max(head[i].z - top, kDeepest) - std::max(head[i + 1].z - top, kDeepest));
    squares += t * t;
  }
  const double s = products / squares, excess = s - 1, log_n = log((double)n);
  const double quotient = excess != 0 ? excess / -expm1(-excess * log_n) : 1 / log_n;
  const double power = log(quotient) + mu * kLn2;
  if (power >= s * log_n) return n;
  if (power <= 0) return 1;
  return (size_t)std::max(1.0, floor(exp(power / s) * (1 + kSlack)));
}

void apply_adaptive(const Op& op, const RowJob& job, Survivors& survivors, Lesson& lesson) {
  const Sums sums = survivors.sums();
  lesson.top = sums.top, lesson.log_total = sums.log_total();
  auto& list = survivors.list();
  lesson.before = list;
  const double target = std::min(std::max(2 * op.a - job.running, 0.0), 1.0);
  for (Candidate& candidate : list) {
    const double p = exp(std::max(candidate.z - sums.top, kDeepest)) / sums.total();
    const double d = fabs(p - target) / 0.3;
    candidate.z = 5 - 10 * (d * d) / (1 + d);
  }
}

void apply_mirostat(const Op& op, const RowJob& job, bool is_last, Survivors& survivors, Lesson& lesson) {
  const Sums before = survivors.sums();
  if (op.a == 1) {
    const size_t n = survivors.count();
    keep_first(zipf_k(survivors.head(kZipf), n, job.running), false, survivors);
  } else {
    keep_likely(-(job.running + kSlack) * kLn2 + kSlack, before.log_total(), false, survivors);
  }
  const Sums seen = op.flag ? survivors.sums() : before;
  lesson.top = seen.top, lesson.log_total = seen.log_total();
  if (!is_last) lesson.before = survivors.list();
}

}  // namespace

double Lesson::of(Candidate chosen) const {
  for (const Candidate& candidate : before)
    if (candidate.id == chosen.id) chosen.z = candidate.z;
  const double log_prob = std::max(chosen.z - top, kDeepest) - log_total;
  return stage == OpKind::kMirostat ? -log_prob / kLn2 : exp(log_prob);
}

void apply_steering(const Op& op, const RowJob& job, bool is_last, Survivors& survivors, Lesson& lesson) {
  lesson.stage = op.kind;
  if (op.kind == OpKind::kAdaptive) return apply_adaptive(op, job, survivors, lesson);
  apply_mirostat(op, job, is_last, survivors, lesson);
}

}  // namespace unspool::sampling
