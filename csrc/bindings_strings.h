// Adds the readers of string arrays to the module.
#pragma once
#include <nanobind/nanobind.h>

namespace unspool {

void bind_strings(nanobind::module_& m);

}  // namespace unspool
