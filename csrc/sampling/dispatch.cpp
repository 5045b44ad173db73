// Choice of the table of vector functions at run time.
#include <string.h>

#include "vectors.h"

namespace unspool::sampling {

#if !(defined(__x86_64__) || defined(_M_X64))
const Vectors* vectors_avx512() {
  return nullptr;
}
const Vectors* vectors_avx2() {
  return nullptr;
}
#endif

const Vectors* vectors_named(const char* name) {
  if (strcmp(name, "avx512") == 0) return vectors_avx512();
  if (strcmp(name, "avx2") == 0) return vectors_avx2();
  return vectors_portable();
}

}  // namespace unspool::sampling
