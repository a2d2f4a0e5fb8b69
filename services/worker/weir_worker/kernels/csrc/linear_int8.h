// y = x W^T + b with int8 weights scaled by output and activations scaled by row.
//
// The sums are exact integers, so a row's result does not depend on its batch-mates, on the
// number of threads or on the instructions used. Activations are quantised to [-127, 127] and
// stored with 128 added where the instruction multiplies unsigned by signed bytes.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "vector.h"

namespace weir {
namespace bytes {

constexpr int kPanel = 32;    // outputs of one strip of packed weights
constexpr int kDepth = 64;    // inputs are padded to a multiple of this
constexpr int kParts = kPanel / kLanes;
constexpr int64_t kRowBlock = 128;

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr bool kUnsigned = true;  // vpdpbusd
constexpr int kFewRows = kLanes == 16 ? 12 : 3;
#else
constexpr bool kUnsigned = false;
constexpr int kFewRows = 2;
#endif
#if defined(__AMX_INT8__)
constexpr int kMostRows = 32;  // of two tiles
#else
constexpr int kMostRows = kFewRows;
#endif

struct Weight {
  int64_t out, in;
  const int8_t* packed;    // [ceil(out / 32), depth / 4, 32, 4]
  const int32_t* offsets;  // [padded out], 128 * sum of a weight row
  const float* scales;     // [padded out]
  const float* bias;       // [padded out] or null
  int64_t fine;            // 1: of activations in two terms, the second what the first rounds off
};

inline int64_t depth_of(int64_t in) { return (in + kDepth - 1) / kDepth * kDepth; }

struct Rows {
  std::vector<uint8_t> levels;  // [rows, depth], and rows of any content that fill up tiles
  std::vector<float> scales;    // [rows]
  std::vector<uint8_t> rest_levels;  // of the second terms, likewise
  std::vector<float> rest_scales;

  void fit(int64_t rows, int64_t in) {
    const size_t size = (rows + 31) * depth_of(in);
    if (levels.size() < size) levels.resize(size), rest_levels.resize(size);
    if (scales.size() < size_t(rows)) scales.resize(rows), rest_scales.resize(rows);
  }
};

inline Ints load_ints(const void* p) {
  Ints v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline void store_ints(int32_t* p, Ints v) { std::memcpy(p, &v, sizeof v); }

inline Ints spread_four(const uint8_t* p) {
  int32_t four;
  std::memcpy(&four, p, sizeof four);
  return four - Ints{};
}

// sums += x . w over the four bytes of each lane.
inline Ints dot_four(Ints sums, Ints x, Ints w) {
#if defined(__AVX512VNNI__)
  return (Ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)x, (__m512i)w);
#elif defined(__AVXVNNI__)
  return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)x, (__m256i)w);
#else
  // |x| * sign(w, x): two products of at most 127 * 127 fit in 16 bits.
  const __m256i size = _mm256_abs_epi8((__m256i)x), turned = _mm256_sign_epi8((__m256i)w, (__m256i)x);
  const __m256i pairs = _mm256_maddubs_epi16(size, turned);
  return sums + (Ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#endif
}

// Weights that are read soon, and how many bytes of them to fetch for each four inputs.
struct Ahead {
  const int8_t* from;
  int64_t bytes;
};

// sums of R rows by one strip; what is ahead is fetched meanwhile.
template <int R>
inline void strip(const uint8_t* x, int64_t depth, const int8_t* w, Ahead ahead, int32_t* sums) {
  Ints s[R][kParts] = {};
  for (int64_t k = 0; k < depth; k += 4, ahead.from += ahead.bytes) {
    for (int64_t byte = 0; byte < ahead.bytes; byte += 64)
      _mm_prefetch((const char*)(ahead.from + byte), _MM_HINT_T0);
    Ints weights[kParts];
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) weights[p] = load_ints(w + k * kPanel + p * sizeof(Ints));
    // Row by row: the other way round the compiler keeps all rows' bytes, and spills sums.
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const Ints four = spread_four(x + r * depth + k);
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p) s[r][p] = dot_four(s[r][p], four, weights[p]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) store_ints(sums + r * kPanel + p * kLanes, s[r][p]);
}

template <int R>
inline void dispatch(int64_t rows, const uint8_t* x, int64_t depth, const int8_t* w, Ahead ahead,
                     int32_t* sums) {
  if (rows == R) return strip<R>(x, depth, w, ahead, sums);
  if constexpr (R > 1) dispatch<R - 1>(rows, x, depth, w, ahead, sums);
}

#if defined(__AMX_INT8__)
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Tiles 0-3 hold sums, 4 and 5 rows of x, 6 and 7 weights; all are 16 rows of 64 bytes.
inline void configure_tiles() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.row_bytes[tile] = 64, config.rows[tile] = 16;
  _tile_loadconfig(&config);
}

// 32 rows of x (any content beyond the wanted ones) by one panel.
inline void tile_strip(const uint8_t* x, int64_t depth, const int8_t* w, int32_t* sums, bool both) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t k = 0; k < depth; k += kDepth) {
    _tile_loadd(6, w + k * kPanel, 128);
    _tile_loadd(7, w + k * kPanel + 64, 128);
    _tile_loadd(4, x + k, depth);
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    if (!both) continue;
    _tile_loadd(5, x + 16 * depth + k, depth);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_stored(0, sums, 128);
  _tile_stored(1, sums + 16, 128);
  _tile_stored(2, sums + 16 * kPanel, 128);
  _tile_stored(3, sums + 16 * kPanel + 16, 128);
}
#endif

// Held by each thread that multiplies.
struct Tiles {
#if defined(__AMX_INT8__)
  Tiles() { configure_tiles(); }
  ~Tiles() { _tile_release(); }
#else
  Tiles() {}
#endif
};

// A row's scale is its largest magnitude / 127; NaN for a row that holds NaN or infinity.
inline float quantise(const float* x, int64_t in, uint8_t* out) {
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
  const uint8_t zero = kUnsigned ? 128 : 0;
  std::memset(out + in, zero, depth - in);
  if (largest >= 0x7f800000u || peak < 1e-30f) {
    std::memset(out, zero, in);
    return largest >= 0x7f800000u ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  const float steps = 127.0f / peak, magic = 12582912.0f;  // rounds to the nearest integer
  for (int64_t i = 0; i < in; ++i)
    out[i] = uint8_t(int32_t((x[i] * steps + magic) - magic) + zero);
  return peak / 127.0f;
}

// A row of activations for a weight, into its place.
inline void quantise_row(const Weight& w, const float* x, int64_t row, Rows& out) {
  const int64_t depth = depth_of(w.in);
  uint8_t* levels = out.levels.data() + row * depth;
  const float scale = out.scales[row] = quantise(x, w.in, levels);
  if (!w.fine) return;
  static thread_local std::vector<float> rest;
  rest.resize(w.in);
  const int zero = kUnsigned ? 128 : 0;
  for (int64_t i = 0; i < w.in; ++i) {
    const int level = kUnsigned ? levels[i] - zero : int8_t(levels[i]);
    rest[i] = x[i] - scale * float(level);
  }
  out.rest_scales[row] = quantise(rest.data(), w.in, out.rest_levels.data() + row * depth);
}

// What is added is rounded before, whether or not it is written in between.
inline Floats kept(Floats v) {
#if defined(__AVX512F__)
  asm("" : "+v"(v));
#else
  asm("" : "+x"(v));
#endif
  return v;
}

// `columns` outputs of a row; `add`: to what is in y. `bias` is the weight's or null.
inline void finish(const int32_t* sums, float row_scale, const Weight& w, const float* bias,
                   int64_t first, int64_t columns, bool add, float* y) {
  float line[kPanel];
  for (int part = 0; part < kPanel; part += kLanes) {
    Ints sum = load_ints(sums + part);
    if (kUnsigned) sum -= load_ints(w.offsets + first + part);
    const Floats scale = load(w.scales + first + part) * row_scale;
    Floats value = kept(__builtin_convertvector(sum, Floats) * scale);
    if (bias) value = kept(value + load(bias + first + part));
    if (columns < kPanel) {
      store(line + part, value);
    } else {
      store(y + part, add ? load(y + part) + value : value);
    }
  }
  if (columns < kPanel)
    for (int64_t i = 0; i < columns; ++i) y[i] = add ? y[i] + line[i] : line[i];
}

inline void multiply_rows(const uint8_t* x, int64_t rows, int64_t depth, const int8_t* w,
                          Ahead ahead, int32_t* sums) {
#if defined(__AMX_INT8__)
  if (rows > 4) return tile_strip(x, depth, w, sums, rows > 16);
#endif
  dispatch<kFewRows>(rows, x, depth, w, ahead, sums);
}

// One strip of weights by rows `from` to `to`, in passes each of which fetches its part of the
// next strip.
inline void multiply_strip(const Weight& w, const Rows& x, int64_t s, int64_t from, int64_t to,
                           bool add, float* y) {
  const int64_t depth = depth_of(w.in), first = s * kPanel, left = w.out - first;
  const int64_t columns = left < kPanel ? left : kPanel;
  const int64_t passes = (to - from + kMostRows - 1) / kMostRows * (w.fine ? 2 : 1);
  const int8_t* packed = w.packed + first * depth;
  Ahead ahead{packed + depth * kPanel, left > kPanel ? 4 * kPanel / passes : 0};
  alignas(64) int32_t sums[32 * kPanel];
  for (int64_t row = from, height; row < to; row += height) {
    const int64_t pieces = (to - row + kMostRows - 1) / kMostRows;
    height = (to - row + pieces - 1) / pieces;
    multiply_rows(x.levels.data() + row * depth, height, depth, packed, ahead, sums);
    ahead.from += depth / 4 * ahead.bytes;
    for (int64_t r = 0; r < height; ++r)
      finish(sums + r * kPanel, x.scales[row + r], w, w.bias, first, columns, add,
             y + (row + r) * w.out + first);
    if (!w.fine) continue;
    multiply_rows(x.rest_levels.data() + row * depth, height, depth, packed, ahead, sums);
    ahead.from += depth / 4 * ahead.bytes;
    for (int64_t r = 0; r < height; ++r)
      finish(sums + r * kPanel, x.rest_scales[row + r], w, nullptr, first, columns, true,
             y + (row + r) * w.out + first);
  }
}

// y = x W^T + b, or y += that; shared out among the threads of the region that calls it, all of
// which hold `Tiles` and wait at its end.
inline void multiply(const Weight& w, const Rows& x, int64_t rows, bool add, float* y) {
  const int64_t strips = (w.out + kPanel - 1) / kPanel;
  const int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
#pragma omp for schedule(guided, 2)
  for (int64_t index = 0; index < blocks * strips; ++index) {
    const int64_t from = index / strips * kRowBlock;
    const int64_t to = from + kRowBlock < rows ? from + kRowBlock : rows;
    multiply_strip(w, x, index % strips, from, to, add, y);
  }
}

}  // namespace bytes
}  // namespace weir
