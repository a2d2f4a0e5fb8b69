// y = x W^T + b with int8 weights scaled by output and activations scaled by row.
//
// The sums are exact integers, so a row's result does not depend on its batch-mates, on the
// number of threads or on the instructions used. Activations are quantised to [-127, 127] and
// stored with 128 added where the instruction multiplies unsigned by signed bytes.
#include <cmath>
#include <limits>
#include <vector>

#include "vector.h"

#if defined(__AMX_INT8__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace weir {
namespace {

constexpr int kPanel = 32;    // outputs of one strip of packed weights
constexpr int kDepth = 64;    // inputs are padded to a multiple of this
constexpr int kParts = kPanel / kLanes;
constexpr int64_t kRowBlock = 128;

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr bool kUnsigned = true;  // vpdpbusd
constexpr int kMostRows = kLanes == 16 ? 12 : 3;
#else
constexpr bool kUnsigned = false;
constexpr int kMostRows = 2;
#endif

inline Ints load_bytes(const int8_t* p) {
  Ints v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

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

template <int R>
void strip(const uint8_t* x, int64_t depth, const int8_t* w, int32_t* sums) {
  Ints s[R][kParts] = {};
  for (int64_t k = 0; k < depth; k += 4)
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) {
      const Ints weight = load_bytes(w + k * kPanel + p * sizeof(Ints));
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) s[r][p] = dot_four(s[r][p], spread_four(x + r * depth + k), weight);
    }
  for (int r = 0; r < R; ++r) std::memcpy(sums + r * kPanel, s[r], sizeof s[r]);
}

template <int R>
void dispatch(int64_t rows, const uint8_t* x, int64_t depth, const int8_t* w, int32_t* sums) {
  if (rows == R) return strip<R>(x, depth, w, sums);
  if constexpr (R > 1) dispatch<R - 1>(rows, x, depth, w, sums);
}

#if defined(__AMX_INT8__)
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Tiles 0-3 hold sums, 4 and 5 rows of x, 6 and 7 weights; all are 16 rows of 64 bytes.
void configure_tiles() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.row_bytes[tile] = 64, config.rows[tile] = 16;
  _tile_loadconfig(&config);
}

// 32 rows of x (any content beyond the wanted ones) by one panel.
void tile_strip(const uint8_t* x, int64_t depth, const int8_t* w, int32_t* sums, bool both) {
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

struct Rows {
  std::vector<uint8_t> bytes;  // [padded rows, depth]
  std::vector<float> scales;   // [rows]
};

// A row's scale is its largest magnitude / 127; NaN for a row that holds NaN or infinity.
float quantise(const float* x, int64_t in, int64_t depth, uint8_t* out) {
  uint32_t largest = 0;  // of the bits, in which NaN is above infinity
  for (int64_t i = 0; i < in; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    bits &= 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  float peak;
  std::memcpy(&peak, &largest, sizeof peak);
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

void finish(const int32_t* sums, const int32_t* offsets, float row_scale, const float* scales,
            const float* bias, int64_t columns, float* y) {
  for (int64_t i = 0; i < columns; ++i) {
    const int32_t sum = kUnsigned ? sums[i] - offsets[i] : sums[i];
    const float value = float(sum) * (row_scale * scales[i]);
    y[i] = bias ? value + bias[i] : value;
  }
}

}  // namespace

struct Int8Weight {
  int64_t out, in;
  const int8_t* packed;    // [ceil(out / 32), depth / 4, 32, 4]
  const int32_t* offsets;  // [padded out], 128 * sum of a weight row
  const float* scales;     // [padded out]
  const float* bias;       // [padded out] or null
};

namespace {

void multiply(const Int8Weight& w, const Rows& x, int64_t depth, int64_t row, int64_t rows,
              int64_t s, int32_t* sums) {
  const int8_t* weights = w.packed + s * depth * kPanel;
  const uint8_t* bytes = x.bytes.data() + row * depth;
#if defined(__AMX_INT8__)
  if (rows > 4) return tile_strip(bytes, depth, weights, sums, rows > 16);
#endif
  dispatch<kMostRows>(rows, bytes, depth, weights, sums);
}

}  // namespace
}  // namespace weir

using namespace weir;

// Asks the kernel for the tile registers; 0 if they may be used (or are not compiled in).
extern "C" WEIR_EXPORT int weir_enable_tiles() {
#if defined(__AMX_INT8__)
  constexpr long request_permission = 0x1023, tile_data = 18;
  return int(syscall(SYS_arch_prctl, request_permission, tile_data));
#else
  return 0;
#endif
}

// Packs int8 [out, in] into strips of 32 outputs, zero beyond both sizes, with their offsets.
extern "C" WEIR_EXPORT void weir_pack_int8(const int8_t* weight, int64_t out, int64_t in, int8_t* packed,
                               int32_t* offsets, int threads) {
  const int64_t depth = (in + kDepth - 1) / kDepth * kDepth;
  const int64_t strips = (out + kPanel - 1) / kPanel;
#pragma omp parallel for num_threads(threads)
  for (int64_t s = 0; s < strips; ++s)
    for (int64_t i = 0; i < kPanel; ++i) {
      const int64_t row = s * kPanel + i;
      int32_t sum = 0;
      for (int64_t k = 0; k < depth; ++k) {
        const int8_t value = row < out && k < in ? weight[row * in + k] : 0;
        packed[s * depth * kPanel + k / 4 * 4 * kPanel + i * 4 + k % 4] = value;
        sum += value;
      }
      offsets[row] = 128 * sum;
    }
}

// x [rows, in] -> y [rows, out].
extern "C" WEIR_EXPORT void weir_linear_int8(const Int8Weight* weight, const float* x, int64_t rows, float* y,
                                 int threads) {
  static thread_local Rows q;  // the caller's; shared with the threads of this call
  const Int8Weight& w = *weight;
  const int64_t depth = (w.in + kDepth - 1) / kDepth * kDepth;
  const int64_t strips = (w.out + kPanel - 1) / kPanel, blocks = (rows + kRowBlock - 1) / kRowBlock;
  if (q.bytes.size() < size_t((rows + 31) * depth)) q.bytes.resize((rows + 31) * depth);
  if (q.scales.size() < size_t(rows)) q.scales.resize(rows);
  Rows& shared = q;
#if defined(__AMX_INT8__)
  constexpr int64_t most = 32;
#else
  constexpr int64_t most = kMostRows;
#endif
#pragma omp parallel for num_threads(threads) if (rows * w.in > kWorthAThread)
  for (int64_t row = 0; row < rows; ++row)
    shared.scales[row] = quantise(x + row * w.in, w.in, depth, shared.bytes.data() + row * depth);
#pragma omp parallel num_threads(threads)
  {
#if defined(__AMX_INT8__)
    configure_tiles();
#endif
    alignas(64) int32_t sums[32 * kPanel];
#pragma omp for collapse(2) nowait
    for (int64_t block = 0; block < blocks; ++block)
      for (int64_t s = 0; s < strips; ++s) {
        const int64_t left = w.out - s * kPanel, columns = left < kPanel ? left : kPanel;
        const int64_t end = (block + 1) * kRowBlock < rows ? (block + 1) * kRowBlock : rows;
        for (int64_t row = block * kRowBlock, height; row < end; row += height) {
          const int64_t pieces = (end - row + most - 1) / most;
          height = (end - row + pieces - 1) / pieces;
          multiply(w, shared, depth, row, height, s, sums);
          for (int64_t r = 0; r < height; ++r)
            finish(sums + r * kPanel, w.offsets + s * kPanel, shared.scales[row + r],
                   w.scales + s * kPanel, w.bias ? w.bias + s * kPanel : nullptr, columns,
                   y + (row + r) * w.out + s * kPanel);
        }
      }
#if defined(__AMX_INT8__)
    _tile_release();
#endif
  }
}
