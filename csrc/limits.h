// What this machine can do at most, measured: the two rates that bound decoding.
#pragma once
#include "kernels.h"
#include "pool.h"

namespace unspool {

// Bytes a second that all threads together read from memory, each a part of a block that no cache holds.
double read_rate(Pool& pool);

// Multiply-adds a second of 8-bit integers in registers, over all threads.
double integer_rate(const Kernels& kernels, Pool& pool);

}  // namespace unspool
