// From GGUF's block encodings to the native layout and back.
#pragma once
#include <stdint.h>

#include "packed.h"

namespace unspool {

// GGUF type numbers.
enum class Encoding : int {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
};

// Fills in the layout of an (n, k) matrix; false when the encoding is unknown or k is no multiple of
// its block. Memory for data_bytes is the caller's.
bool plan_layout(Encoding encoding, int n, int k, Packed* packed);

// Bytes of one stored row of k values.
size_t row_bytes(Encoding encoding, int k);

// Repacks tiles [tile0, tile1) from rows of `source`; the values are the same to the last bit. False when a
// value or a scale is infinite or not a number.
bool repack_tiles(Encoding encoding, const uint8_t* source, const Packed& packed, int tile0, int tile1);

// Values of one output row, k_padded of them.
void unpack_row(const Packed& packed, int row, float* out);

}  // namespace unspool
