#define UNSPOOL_ISA isa_avx512
#define UNSPOOL_ISA_NAME "avx512"

#include "simd/avx512.h"
#include "simd/avx512_halves.h"
#include "simd/avx512_rows.h"

#include "kernels/table.h"

const unspool::Kernels* unspool::kernels_avx512(bool with_bf16) {
#if defined(UNSPOOL_BF16)
  static const Kernels with = [] {
    Kernels table = isa_avx512::kTable;
    table.gemm_float = gemm_float_avx512bf16;
    return table;
  }();
  if (with_bf16) return &with;
#else
  (void)with_bf16;  // compilers that do not know the instruction
#endif
  return &isa_avx512::kTable;
}
