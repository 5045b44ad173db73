// Included once per instruction set, after its simd header: all kernels and their table.
#pragma once
#include "../kernels.h"

// clang-format off: each of these uses what the ones before it define.
#include "math.h"
#include "asking.h"
#include "unpack.h"
#include "piece_mins.h"
#include "scales.h"
#include "gemm_quant.h"
#include "gemm_float.h"
#include "rowwise.h"
#include "fit.h"
#include "attention_tiles.h"
#include "attention_segment.h"
#include "attention.h"
#include "dots.h"
// clang-format on

namespace unspool {
namespace UNSPOOL_ISA {

static const Kernels kTable = {
    UNSPOOL_ISA_NAME, gemm_quant, gemm_float, quantize, halve, rms_norm,  gated,      add,
    scale_row,        softcap,    store_kv,   attend,   merge, fit_lines, fit_scales, dots};

}  // namespace UNSPOOL_ISA
}  // namespace unspool
