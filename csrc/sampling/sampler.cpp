#include "sampler.h"

#include <algorithm>
#include <new>

#include "choose.h"
#include "stages.h"

namespace unspool::sampling {

namespace {

bool edits(OpKind kind) {
  return kind <= OpKind::kBias;
}

bool apply(const Op& op, const RowJob& job, bool is_last, Survivors& survivors, Lesson& lesson) {
  if (edits(op.kind)) return apply_edit(op, job, survivors), true;
  if (!survivors.sound() || survivors.top() == -INFINITY) return false;
  switch (op.kind) {
    case OpKind::kTemperature:
    case OpKind::kDynatemp:
    case OpKind::kEdt:
    case OpKind::kSmoothing:
      return apply_temperature(op, survivors), true;
    case OpKind::kTopK:
    case OpKind::kTopP:
    case OpKind::kTypical:
    case OpKind::kTopH:
      return apply_prefix(op, survivors), true;
    case OpKind::kTailFree:
      return apply_tail_free(op, survivors), true;
    case OpKind::kXtc:
      return apply_xtc(op, job, survivors), true;
    case OpKind::kMirostat:
    case OpKind::kAdaptive:
      return apply_steering(op, job, is_last, survivors, lesson), true;
    default:
      return apply_threshold(op, survivors), true;
  }
}

// In order of id. What stages leave is mostly in that order already.
std::vector<Candidate> by_id(std::vector<Candidate>& list) {
  const auto earlier = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
  list.erase(std::remove_if(list.begin(), list.end(), [](const Candidate& c) { return !(c.z > -INFINITY); }),
             list.end());
  const auto middle = std::is_sorted_until(list.begin(), list.end(), earlier);
  std::sort(middle, list.end(), earlier);
  std::inplace_merge(list.begin(), middle, list.end(), earlier);
  return list;
}

bool work_out(const RowJob& job, int n_vocab, int n_candidates, const Vectors& vectors, RowResult& result) {
  if (!job.program) return false;
  static thread_local Workspace work;
  Survivors survivors(vectors, job.logits, n_vocab, work);
  Lesson lesson;
  for (const Op& op : job.program->ops)
    if (!apply(op, job, &op == &job.program->ops.back(), survivors, lesson)) return false;
  if (!survivors.sound() || survivors.top() == -INFINITY) return false;
  // Before anything becomes a list, so that it is the same number however many candidates are asked for.
  if (n_candidates != 0) result.log_total = survivors.sums().log_total();
  const Candidate chosen =
      job.program->greedy ? survivors.best() : draw(survivors, Noise(job, kChooseTags), vectors);
  result.token_id = chosen.id;
  result.has_observed = lesson.stage != OpKind::kCount;
  if (result.has_observed) result.observed = lesson.of(chosen);
  if (n_candidates != 0)
    result.candidates = by_id(n_candidates < 0 ? survivors.list() : survivors.head((size_t)n_candidates));
  return true;
}

}  // namespace

void Sampler::run(const std::vector<RowJob>& jobs, int n_vocab, const std::vector<int>& n_candidates,
                  std::vector<RowResult>& results) {
  helpers_->run((int)jobs.size(), [&](int i) {
    try {
      results[i].done = work_out(jobs[i], n_vocab, n_candidates[i], vectors_, results[i]);
    } catch (const std::bad_alloc&) {
      results[i].done = false;
    }
  });
}

}  // namespace unspool::sampling
