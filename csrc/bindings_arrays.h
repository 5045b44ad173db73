// Arrays that come from Python and go there.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <utility>
#include <vector>

namespace unspool {

template <typename T>
using Vector = nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using FloatRows =
    nanobind::ndarray<const float, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
template <typename T>
using NewArray = nanobind::ndarray<nanobind::numpy, T>;

// An array over the memory of `values`, which it owns from now on.
template <typename T>
NewArray<T> array_from(std::vector<T>&& values, std::initializer_list<size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nanobind::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return NewArray<T>(owned->data(), shape, owner);
}

template <typename T>
NewArray<T> array_from(std::vector<T>&& values) {
  return array_from(std::move(values), {values.size()});
}

}  // namespace unspool
