// Scalar conversions between float32 and the two 16-bit formats (IEEE 754 binary16, bfloat16).
#pragma once
#include <stdint.h>
#include <string.h>

namespace unspool {
namespace {

inline float bits_to_f32(uint32_t bits) {
  float out;
  memcpy(&out, &bits, 4);
  return out;
}

inline float bf16_to_f32(uint16_t x) {
  return bits_to_f32((uint32_t)x << 16);
}

inline float f16_to_f32(uint16_t x) {
  const uint32_t sign = (uint32_t)(x & 0x8000u) << 16;
  const uint32_t exponent = (x >> 10) & 31u, mantissa = x & 1023u;
  if (exponent == 31) return bits_to_f32(sign | 0x7f800000u | (mantissa << 13));
  if (exponent) return bits_to_f32(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: mantissa * 2^-24, exact in float32.
  const float magnitude = (float)mantissa * 5.9604644775390625e-8f;
  return sign ? -magnitude : magnitude;
}

// Round to nearest even; what is no number becomes the positive quiet one.
inline uint16_t f32_to_bf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

// Round to nearest even; overflow becomes infinity.
inline uint16_t f32_to_f16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  const uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
  if (magnitude < 0x38800000u) {
    // Below the smallest normal half: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
    const float shifted = bits_to_f32(magnitude) + 0.5f;
    memcpy(&bits, &shifted, 4);
    return sign | (uint16_t)(bits - 0x3f000000u);
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return sign | (uint16_t)((magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

}  // namespace
}  // namespace unspool
