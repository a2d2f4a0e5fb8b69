// y = x W^T + b with int8 weights scaled by output and 16-bit activations scaled by row, for
// processors without a multiply-add of bytes into 32 bits.
//
// AVX2's multiply-add of bytes sums two products in 16 bits and may saturate; that of 16-bit
// numbers is as fast per product here, exact, and leaves activations 13 bits and more. The sums
// are exact integers, so a row's result depends on nothing but the row.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "vector.h"

namespace weir {
namespace wide {

constexpr int kPanel = 16;     // outputs of one strip of packed weights
constexpr int kDepth = 16;     // inputs are padded to a multiple of this
constexpr int kMostRows = 6;   // with two vectors of outputs their sums fill 12 of 16 registers
constexpr int64_t kRowBlock = 96;  // rows that stay in a core's cache
constexpr int64_t kMostLevel = 32767;

struct Weight {
  int64_t out, in;
  const int8_t* packed;  // [ceil(out / 16), depth / 2, 16, 2]
  const float* scales;   // [padded out]
  const float* bias;     // [padded out] or null
};

inline int64_t depth_of(int64_t in) { return (in + kDepth - 1) / kDepth * kDepth; }

// Largest magnitude of an activation: no sum of `in` products by at most 127 leaves 32 bits.
inline int64_t level_of(int64_t in) {
  const int64_t bound = std::numeric_limits<int32_t>::max() / (127 * depth_of(in));
  return bound < kMostLevel ? bound : kMostLevel;
}

struct Rows {
  std::vector<int16_t> levels;  // [rows, depth]
  std::vector<float> scales;    // [rows]

  void fit(int64_t rows, int64_t in) {
    if (levels.size() < size_t(rows * depth_of(in))) levels.resize(rows * depth_of(in));
    if (scales.size() < size_t(rows)) scales.resize(rows);
  }
};

// Threads need hold nothing.
struct Tiles {
  Tiles() {}
};

inline __m256i rounded(const float* x, __m256 steps) {
  return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), steps));
}

// A row's scale is its largest magnitude / level; NaN for a row that holds NaN or infinity.
inline float quantise(const float* x, int64_t in, int16_t* out) {
  uint32_t largest = 0;  // of the bits, in which NaN is above infinity
  for (int64_t i = 0; i < in; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    bits &= 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  float peak;
  std::memcpy(&peak, &largest, sizeof peak);
  const int64_t depth = depth_of(in);
  if (largest >= 0x7f800000u || peak < 1e-30f) {
    std::memset(out, 0, depth * sizeof *out);
    return largest >= 0x7f800000u ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  const float level = float(level_of(in)), steps = level / peak;
  const __m256 all = _mm256_set1_ps(steps);
  int64_t i = 0;
  for (; i + 16 <= in; i += 16) {
    const __m256i pair = _mm256_packs_epi32(rounded(x + i, all), rounded(x + i + 8, all));
    _mm256_storeu_si256((__m256i*)(out + i), _mm256_permute4x64_epi64(pair, 0xd8));
  }
  for (; i < in; ++i) out[i] = int16_t(_mm_cvtss_si32(_mm_set_ss(x[i] * steps)));
  for (; i < depth; ++i) out[i] = 0;
  return peak / level;
}

// A row of activations for a weight, into its place.
inline void quantise_row(const Weight& w, const float* x, int64_t row, Rows& out) {
  out.scales[row] = quantise(x, w.in, out.levels.data() + row * depth_of(w.in));
}

// sums of R rows by one strip; `next` is fetched meanwhile, a strip that is read soon.
template <int R>
inline void strip(const int16_t* x, int64_t depth, const int8_t* w, const int8_t* next,
                  int32_t* sums) {
  __m256i s[R][2];
  for (int r = 0; r < R; ++r) s[r][0] = s[r][1] = _mm256_setzero_si256();
  for (int64_t k = 0; k < depth; k += 4) {  // one line of weights
    _mm_prefetch((const char*)(next + k * kPanel), _MM_HINT_T0);
#pragma GCC unroll 2
    for (int64_t pair = k; pair < k + 4; pair += 2) {
      const __m128i* line = (const __m128i*)(w + pair * kPanel);
      const __m256i left = _mm256_cvtepi8_epi16(_mm_load_si128(line));
      const __m256i right = _mm256_cvtepi8_epi16(_mm_load_si128(line + 1));
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        int32_t two;
        std::memcpy(&two, x + r * depth + pair, sizeof two);
        const __m256i both = _mm256_set1_epi32(two);
        s[r][0] = _mm256_add_epi32(s[r][0], _mm256_madd_epi16(both, left));
        s[r][1] = _mm256_add_epi32(s[r][1], _mm256_madd_epi16(both, right));
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    _mm256_store_si256((__m256i*)(sums + r * kPanel), s[r][0]);
    _mm256_store_si256((__m256i*)(sums + r * kPanel + 8), s[r][1]);
  }
}

template <int R>
inline void dispatch(int64_t rows, const int16_t* x, int64_t depth, const int8_t* w,
                     const int8_t* next, int32_t* sums) {
  if (rows == R) return strip<R>(x, depth, w, next, sums);
  if constexpr (R > 1) dispatch<R - 1>(rows, x, depth, w, next, sums);
}

// What is added is rounded before, whether or not it is written in between.
inline __m256 kept(__m256 v) {
  asm("" : "+x"(v));
  return v;
}

// Eight outputs of a row; `add`: to what is in y.
inline __m256 scaled(const int32_t* sums, __m256 row_scale, const float* scales,
                     const float* bias) {
  const __m256 sum = _mm256_cvtepi32_ps(_mm256_load_si256((const __m256i*)sums));
  const __m256 value = kept(_mm256_mul_ps(sum, _mm256_mul_ps(row_scale, _mm256_load_ps(scales))));
  return bias ? kept(_mm256_add_ps(value, _mm256_load_ps(bias))) : value;
}

inline void finish(const int32_t* sums, float row_scale, const float* scales, const float* bias,
                   int64_t columns, bool add, float* y) {
  alignas(32) float line[kPanel];
  const __m256 all = _mm256_set1_ps(row_scale);
  for (int part = 0; part < kPanel; part += 8) {
    __m256 value = scaled(sums + part, all, scales + part, bias ? bias + part : nullptr);
    if (columns == kPanel) {
      if (add) value = _mm256_add_ps(_mm256_loadu_ps(y + part), value);
      _mm256_storeu_ps(y + part, value);
    } else {
      _mm256_store_ps(line + part, value);
    }
  }
  if (columns < kPanel)
    for (int64_t i = 0; i < columns; ++i) y[i] = add ? y[i] + line[i] : line[i];
}

// One strip of weights by rows `from` to `to`.
inline void multiply_strip(const Weight& w, const Rows& x, int64_t s, int64_t from, int64_t to,
                           bool add, float* y) {
  const int64_t depth = depth_of(w.in), left = w.out - s * kPanel;
  const int8_t* packed = w.packed + s * depth * kPanel;
  alignas(32) int32_t sums[kMostRows * kPanel];
  for (int64_t row = from, height; row < to; row += height) {
    const int64_t pieces = (to - row + kMostRows - 1) / kMostRows;
    height = (to - row + pieces - 1) / pieces;
    const bool last = row + height == to && left > kPanel;
    dispatch<kMostRows>(height, x.levels.data() + row * depth, depth, packed,
                        last ? packed + depth * kPanel : packed, sums);
    for (int64_t r = 0; r < height; ++r)
      finish(sums + r * kPanel, x.scales[row + r], w.scales + s * kPanel,
             w.bias ? w.bias + s * kPanel : nullptr, left < kPanel ? left : kPanel, add,
             y + (row + r) * w.out + s * kPanel);
  }
}

// y = x W^T + b, or y += that; shared out among the threads of the region that calls it, all of
// which wait at its end.
inline void multiply(const Weight& w, const Rows& x, int64_t rows, bool add, float* y) {
  const int64_t strips = (w.out + kPanel - 1) / kPanel;
  const int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
#pragma omp for schedule(dynamic, 4)
  for (int64_t index = 0; index < blocks * strips; ++index) {
    const int64_t from = index / strips * kRowBlock;
    const int64_t to = from + kRowBlock < rows ? from + kRowBlock : rows;
    multiply_strip(w, x, index % strips, from, to, add, y);
  }
}

}  // namespace wide
}  // namespace weir
