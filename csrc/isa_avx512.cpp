#define UNSPOOL_ISA isa_avx512
#define UNSPOOL_ISA_NAME "avx512"

#include "simd/avx512.h"
#include "simd/avx512_halves.h"
#include "simd/avx512_rows.h"

#include "kernels/table.h"

const unspool::Kernels* unspool::kernels_avx512() {
  return &isa_avx512::kTable;
}
