#define UNSPOOL_ISA isa_avx2
#define UNSPOOL_ISA_NAME "avx2"
#define UNSPOOL_VECTOR_BYTES 32

#include "kernels.h"

const unspool::sampling::Vectors* unspool::sampling::vectors_avx2() {
  return &isa_avx2::kTable;
}
