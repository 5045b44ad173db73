// The float matrix product on processors that multiply pairs of bfloat16. (Of float32 and float16 it is the
// code of isa_avx512.cpp once more.)
#define UNSPOOL_ISA isa_avx512bf16

#include "simd/avx512.h"

#include "kernels.h"

// Last: it is written in terms of the vectors and types above.
#include "kernels/gemm_float.h"

const unspool::GemmFloat unspool::gemm_float_avx512bf16 = isa_avx512bf16::gemm_float;
