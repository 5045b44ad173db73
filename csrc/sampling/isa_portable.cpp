#define UNSPOOL_ISA isa_portable
#define UNSPOOL_ISA_NAME "portable"
#define UNSPOOL_VECTOR_BYTES 16

#include "kernels.h"

const unspool::sampling::Vectors* unspool::sampling::vectors_portable() {
  return &isa_portable::kTable;
}
