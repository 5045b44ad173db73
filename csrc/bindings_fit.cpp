// Scales for weights that are quantized. The interpreter lock is released meanwhile.
#include "bindings_fit.h"

#include <nanobind/stl/string.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "bindings_arrays.h"
#include "fit.h"

namespace nb = nanobind;

namespace unspool {

namespace {

void require_block(const FloatRows& x) {
  if (x.shape(1) < 1 || x.shape(1) > (size_t)kMostFitted)
    throw std::invalid_argument("fit: blocks of 1 to " + std::to_string(kMostFitted) + " values, got " +
                                std::to_string(x.shape(1)));
}

// (2, N): scales, minimums.
NewArray<float> lines(FloatRows x, int highest, bool lets_min_be_positive, const std::string& isa) {
  require_block(x);
  const Kernels& kernels = kernels_named(isa.c_str());
  const size_t n = x.shape(0);
  std::vector<float> found(2 * n);
  {
    nb::gil_scoped_release others;
    fit_lines(kernels, x.data(), n, (int)x.shape(1), highest, lets_min_be_positive, found.data(),
              found.data() + n);
  }
  return array_from(std::move(found), {2, n});
}

// (N,)
NewArray<float> scales(FloatRows x, int lowest, const std::string& isa) {
  require_block(x);
  const Kernels& kernels = kernels_named(isa.c_str());
  std::vector<float> found(x.shape(0));
  {
    nb::gil_scoped_release others;
    fit_scales(kernels, x.data(), x.shape(0), (int)x.shape(1), lowest, found.data());
  }
  return array_from(std::move(found));
}

}  // namespace

void bind_fit(nb::module_& m) {
  m.def("fit_lines", &lines, nb::arg("x"), nb::arg("highest"), nb::arg("lets_min_be_positive"),
        nb::arg("isa") = "",
        "Of blocks (N, B) of finite float32, the scales and minimums (2, N) for integers in [0, highest]: "
        "see unspool.models.weights.fit.");
  m.def("fit_scales", &scales, nb::arg("x"), nb::arg("lowest"), nb::arg("isa") = "",
        "The same with scales (N,) alone, for integers in [lowest, -lowest - 1].");
}

}  // namespace unspool
