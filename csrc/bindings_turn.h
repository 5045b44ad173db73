// How threads of Python take turns with the engine, and what they are told in a forked child.
#pragma once
#include <nanobind/nanobind.h>

#include <exception>
#include <mutex>

#include "turn.h"

namespace unspool {

// While it lives, pages and buffers are the caller's and the interpreter runs other threads. The
// interpreter's lock is given up first and taken back last: nobody waits for it who keeps others waiting for
// their turn.
class InTurn {
 public:
  explicit InTurn(Turn& turn) : turn_(turn) {}

 private:
  const nanobind::gil_scoped_release interpreter_;
  const std::lock_guard<Turn> turn_;
};

// Forked becomes unspool.errors.UnspoolError with the code that has the same meaning elsewhere.
inline void raise_forked(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Forked& forked) {
    const nanobind::object kind = nanobind::module_::import_("unspool.errors").attr("UnspoolError");
    PyErr_SetObject(kind.ptr(), kind(forked.what(), nanobind::arg("code") = "forked").ptr());
  }
}

}  // namespace unspool
