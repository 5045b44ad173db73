// Pick one survivor: the largest logit, or the largest logit plus Gumbel noise (choose.py).
#pragma once
#include "noise.h"
#include "survivors.h"

namespace unspool::sampling {

// The first in order of the survivors' z + noise; id -1 when nobody is alive.
int32_t draw(Survivors& survivors, const Noise& noise, const Vectors& vectors);

}  // namespace unspool::sampling
