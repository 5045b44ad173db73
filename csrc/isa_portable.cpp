#define UNSPOOL_ISA isa_portable
#define UNSPOOL_ISA_NAME "portable"

#include "simd/portable.h"

// After what it uses.
#include "simd/halves.h"

#include "kernels/table.h"

const unspool::Kernels* unspool::kernels_portable() {
  return &isa_portable::kTable;
}
