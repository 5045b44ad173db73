#define UNSPOOL_ISA isa_avx512
#define UNSPOOL_ISA_NAME "avx512"
#define UNSPOOL_VECTOR_BYTES 64

#include "kernels.h"

const unspool::sampling::Vectors* unspool::sampling::vectors_avx512() {
  return &isa_avx512::kTable;
}
