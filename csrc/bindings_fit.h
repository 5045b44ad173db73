// Adds the fits of scales to the module.
#pragma once
#include <nanobind/nanobind.h>

namespace unspool {

void bind_fit(nanobind::module_& m);

}  // namespace unspool
