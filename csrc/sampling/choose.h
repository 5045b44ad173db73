// Pick one survivor: the largest logit, or the largest logit plus Gumbel noise (choose.py).
#pragma once
#include "noise.h"
#include "survivors.h"

namespace unspool::sampling {

// The survivor with the largest z + noise, the lowest id of equals; id -1 when nobody is alive.
Candidate draw(Survivors& survivors, const Noise& noise, const Vectors& vectors);

}  // namespace unspool::sampling
