// The normalised Hadamard transform of a row, by additions alone.
#pragma once

#include <cmath>

#include "vector.h"

namespace weir {

constexpr int64_t kMostBase = 128;

// Blocks of base * power elements; the matrix is base's Kronecker product with Sylvester's.
struct Hadamard {
  int64_t base, power;
  const float* matrix;  // [base, base], transposed, of +1 and -1
};

// Element i and element i ^ Stride of one vector become their sum and their difference.
template <int Stride>
inline Floats butterfly(Floats x) {
#if defined(__AVX512F__)
  const __m512 v = (__m512)x;
  const Floats other = Stride == 1   ? (Floats)_mm512_permute_ps(v, 0xb1)
                       : Stride == 2 ? (Floats)_mm512_permute_ps(v, 0x4e)
                       : Stride == 4 ? (Floats)_mm512_shuffle_f32x4(v, v, 0xb1)
                                     : (Floats)_mm512_shuffle_f32x4(v, v, 0x4e);
#else
  const __m256 v = (__m256)x;
  const Floats other = Stride == 1   ? (Floats)_mm256_permute_ps(v, 0xb1)
                       : Stride == 2 ? (Floats)_mm256_permute_ps(v, 0x4e)
                                     : (Floats)_mm256_permute2f128_ps(v, v, 1);
#endif
  Floats sign;
  for (int i = 0; i < kLanes; ++i) sign[i] = i & Stride ? -1.0f : 1.0f;
  return other + sign * x;
}

inline void transform_powers(float* x, int64_t width, int64_t power) {
  for (int64_t i = 0; i < width; i += kLanes) {
    Floats v = load(x + i);
    if (power > 1) v = butterfly<1>(v);
    if (power > 2) v = butterfly<2>(v);
    if (power > 4) v = butterfly<4>(v);
    if (kLanes > 8 && power > 8) v = butterfly<8>(v);
    store(x + i, v);
  }
  for (int64_t stride = kLanes; stride < power; stride *= 2)
    for (int64_t pair = 0; pair < width; pair += 2 * stride)
      for (int64_t i = pair; i < pair + stride; i += kLanes) {
        const Floats left = load(x + i), right = load(x + i + stride);
        store(x + i, left + right);
        store(x + i + stride, left - right);
      }
}

// One column of a block: `base` vectors (or single elements, T = float), `power` floats apart.
template <typename T>
inline void transform_column(float* x, const Hadamard& h, float scale) {
  T in[kMostBase];
  for (int64_t b = 0; b < h.base; ++b) std::memcpy(&in[b], x + b * h.power, sizeof(T));
  for (int64_t b = 0; b < h.base; ++b) {
    const float* signs = h.matrix + b * h.base;
    T sum = in[0] * signs[0];
    for (int64_t k = 1; k < h.base; ++k) sum = sum + in[k] * signs[k];
    sum = sum * scale;
    std::memcpy(x + b * h.power, &sum, sizeof(T));
  }
}

inline void transform_block(float* x, const Hadamard& h, float scale) {
  if (h.power >= kSums)
    for (int64_t i = 0; i < h.power; i += kLanes) transform_column<Floats>(x + i, h, scale);
  else
    for (int64_t i = 0; i < h.power; ++i) transform_column<float>(x + i, h, scale);
}

// x <- x H in place; width % 16 == 0. Each element's additions have one order everywhere, and
// products by 1 and -1 are exact, so that neither vectors nor fused operations change a bit.
inline void transform(float* x, int64_t width, const Hadamard& h) {
  transform_powers(x, width, h.power);
  const float scale = 1.0f / std::sqrt(float(h.base * h.power));
  for (int64_t block = 0; block < width; block += h.base * h.power)
    transform_block(x + block, h, scale);
}

}  // namespace weir
