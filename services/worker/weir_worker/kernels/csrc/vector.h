// Vectors of the processor's width, and functions over them whose results do not depend on it.
//
// FMA contraction is on (GCC's default): a*b + c on vectors is one rounding everywhere.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#define WEIR_EXPORT __attribute__((visibility("default")))

namespace weir {

// Below this many floats a second thread costs more than it helps.
constexpr int64_t kWorthAThread = 1 << 15;

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
// Sums over a row are kept in this many lanes on every processor.
constexpr int kSums = 16;

typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef int32_t Ints __attribute__((vector_size(kLanes * 4)));

inline Floats load(const float* p) {
  Floats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// A number of 16 bits (IEEE binary16) in memory; all arithmetic is in 32.
struct Half {
  uint16_t bits;
};

#if defined(__AVX512F__)
inline Floats load(const Half* p) {
  return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
}
#else
inline Floats load(const Half* p) {
  return (Floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
}
#endif

// The nearest one, the largest for what is beyond; NaN stays.
inline Half half(float x) {
  constexpr float kMost = 65504.0f;
  const float held = x > kMost ? kMost : x < -kMost ? -kMost : x;
  return {_cvtss_sh(held, _MM_FROUND_TO_NEAREST_INT)};
}

inline void put(float* p, float x) { *p = x; }
inline void put(Half* p, float x) { *p = half(x); }

inline void store(float* p, Floats v) { std::memcpy(p, &v, sizeof v); }

inline Floats spread(float x) { return x - Floats{}; }

// Whether a lane of a comparison is true.
#if defined(__AVX512F__)
inline bool any(Ints lanes) { return _mm512_movepi32_mask((__m512i)lanes) != 0; }
#else
inline bool any(Ints lanes) { return _mm256_movemask_ps((__m256)lanes) != 0; }
#endif

// e^x after Cephes' expf: 2^n e^r with |r| <= ln(2)/2, relative error below 2e-7; NaN stays.
inline Floats exp(Floats x) {
  x = x < -87.0f ? spread(-87.0f) : x;
  x = x > 88.0f ? spread(88.0f) : x;
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  Floats n = (x * 1.44269504088896341f + magic) - magic;
  Floats r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
  Floats scale;
  std::memcpy(&scale, &power, sizeof scale);
  return p * scale;
}

// Of kSums floats: neighbours at half the distance are added until one is left.
inline float tree_sum(const float* sums) {
  const __m256 eight = _mm256_add_ps(_mm256_loadu_ps(sums), _mm256_loadu_ps(sums + 8));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// The largest lane; none may be NaN.
inline float largest_lane(Floats v) {
#if defined(__AVX512F__)
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256((__m512)v),
                                     _mm512_extractf32x8_ps((__m512)v, 1));
#else
  const __m256 eight = (__m256)v;
#endif
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// x.x over n floats, n a multiple of 16.
inline float square_sum(const float* x, int64_t n) {
  Floats sums[kSums / kLanes] = {};
  for (int64_t i = 0; i < n; i += kSums)
    for (int part = 0; part < kSums / kLanes; ++part) {
      Floats v = load(x + i + part * kLanes);
      sums[part] = sums[part] + v * v;
    }
  float flat[kSums];
  std::memcpy(flat, sums, sizeof flat);
  return tree_sum(flat);
}

}  // namespace weir
