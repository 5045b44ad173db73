// Temperature and its kinds: one map for all survivors, found from sums over them.
#include "stages.h"

namespace unspool::sampling {

namespace {

double temperature_of(const Op& op, Survivors& survivors) {
  if (op.kind == OpKind::kTemperature) return op.a;
  const double entropy = survivors.sums().entropy();
  if (op.kind == OpKind::kEdt) return entropy > 0 ? op.a * pow(op.b, op.c / entropy) : 0.0;
  const size_t n = survivors.count();
  const double share = n > 1 ? std::min(entropy / log((double)n), 1.0) : 0.0;
  return op.a + (op.b - op.a) * pow(share, op.c);
}

}  // namespace

void apply_temperature(const Op& op, Survivors& survivors) {
  const double top = survivors.top();
  if (op.kind == OpKind::kSmoothing)
    return survivors.map({Map::kSmooth, top, op.a, (3 - op.b) / 2, (op.b - 1) / 2});
  const double divisor = std::max(temperature_of(op, survivors), 0x1p-1074);
  const bool fits = std::isfinite(top / divisor);
  survivors.map({fits ? Map::kDivide : Map::kFromTop, top, divisor, 0, 0});
}

}  // namespace unspool::sampling
