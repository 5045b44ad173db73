// The float matrix product on processors that multiply pairs of bfloat16; all else is as in isa_avx512.cpp.
#define UNSPOOL_ISA isa_avx512bf16

#include "simd/avx512.h"

#include "kernels.h"

// After what it uses.
#include "kernels/gemm_float.h"

const unspool::GemmFloat unspool::gemm_float_avx512bf16 = isa_avx512bf16::gemm_float;
