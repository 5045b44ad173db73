#define UNSPOOL_ISA isa_avx2
#define UNSPOOL_ISA_NAME "avx2"

#include "simd/avx2.h"

// After what it uses.
#include "simd/halves.h"

#include "kernels/table.h"

const unspool::Kernels* unspool::kernels_avx2() {
  return &isa_avx2::kTable;
}
