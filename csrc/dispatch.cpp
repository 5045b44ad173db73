// Choice of the kernel table at run time.
#include <string.h>

#include <stdexcept>
#include <string>

#include "kernels.h"

namespace unspool {

#if defined(__x86_64__) || defined(_M_X64)
static bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
static bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
static bool has_bf16() {
#if defined(UNSPOOL_BF16)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}
#else
static bool has_avx2() {
  return false;
}
static bool has_avx512() {
  return false;
}
static bool has_bf16() {
  return false;
}
const Kernels* kernels_avx512(bool) {
  return nullptr;
}
const Kernels* kernels_avx2() {
  return nullptr;
}
#endif

const Kernels* select_kernels(const char* name) {
  const bool any = name == nullptr || *name == 0;
  if (any ? has_avx512() : strcmp(name, "avx512") == 0)
    return has_avx512() ? kernels_avx512(has_bf16()) : nullptr;
  if (!any && strcmp(name, "avx512 without bf16") == 0) return has_avx512() ? kernels_avx512(false) : nullptr;
  if (any ? has_avx2() : strcmp(name, "avx2") == 0) return has_avx2() ? kernels_avx2() : nullptr;
  if (any || strcmp(name, "portable") == 0) return kernels_portable();
  return nullptr;
}

const Kernels& kernels_named(const char* name) {
  if (const Kernels* kernels = select_kernels(name)) return *kernels;
  throw std::invalid_argument(std::string("instruction set not known or not on this machine: ") + name);
}

}  // namespace unspool
