// Masks, penalties and bias: few tokens, one by one.
#include <limits>

#include "stages.h"

namespace unspool::sampling {

constexpr double kLargest = std::numeric_limits<double>::max();

void apply_edit(const Op& op, const RowJob& job, Survivors& survivors) {
  switch (op.kind) {
    case OpKind::kAllow:
      return survivors.keep_only(op.ids);
    case OpKind::kBan:
      return survivors.ban(op.ids.data(), op.ids.size());
    case OpKind::kBanNext:
      return survivors.ban(job.banned_next.ids, job.banned_next.n);
    case OpKind::kMinTokens:
      if (job.n_output < op.a) survivors.ban_unless_last(op.ids);
      return;
    case OpKind::kRepetition: {
      const auto& seen = job.repetition;
      return survivors.edit(seen.ids, seen.n, [&](double z, size_t i) {
        if (seen.values[i] == 0) return z;
        return std::clamp(z > 0 ? z / op.a : z * op.a, -kLargest, kLargest);
      });
    }
    case OpKind::kFrequency: {
      const auto& seen = job.additive;
      return survivors.edit(seen.ids, seen.n,
                            [&](double z, size_t i) { return z - op.a * (double)seen.values[i]; });
    }
    case OpKind::kPresence: {
      const auto& seen = job.additive;
      return survivors.edit(seen.ids, seen.n,
                            [&](double z, size_t i) { return seen.values[i] > 0 ? z - op.a : z; });
    }
    case OpKind::kDry:
      return survivors.edit(job.dry.ids, job.dry.n,
                            [&](double z, size_t i) { return z - job.dry.values[i]; });
    default:
      return survivors.edit(op.ids.data(), op.ids.size(),
                            [&](double z, size_t i) { return z + op.values[i]; });
  }
}

}  // namespace unspool::sampling
