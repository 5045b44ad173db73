// Adds the classes of csrc/sampling to the module.
#pragma once
#include <nanobind/nanobind.h>

namespace unspool {

void bind_sampling(nanobind::module_& m);

}  // namespace unspool
