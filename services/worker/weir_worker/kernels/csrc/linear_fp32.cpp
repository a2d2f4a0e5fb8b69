// y = x W^T + b in fp32. Each element is one chain of fused multiply-adds in order of k, so it is
// the same at every number of rows and threads and on every processor.
#include "vector.h"

namespace weir {
namespace {

constexpr int kPanel = 32;  // outputs of one strip of packed weights
constexpr int kParts = kPanel / kLanes;
constexpr int kMostRows = kLanes == 16 ? 12 : 3;
constexpr int64_t kRowBlock = 96;  // rows that stay in a core's cache

// Weights that are read soon, and how many bytes of them to fetch for each input.
struct Ahead {
  const char* from;
  int64_t bytes;
};

// sums of R rows by one strip; what is ahead is fetched meanwhile.
template <int R>
void strip(const float* x, int64_t in, const float* w, Ahead ahead, Floats (*sums)[kParts]) {
  Floats s[R][kParts] = {};
  for (int64_t k = 0; k < in; ++k, ahead.from += ahead.bytes) {
    for (int64_t byte = 0; byte < ahead.bytes; byte += 64)
      _mm_prefetch(ahead.from + byte, _MM_HINT_T0);
    Floats weights[kParts];
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) weights[p] = load(w + k * kPanel + p * kLanes);
    // Row by row: the other way round the compiler keeps a number of each row, and spills sums.
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p) s[r][p] = s[r][p] + weights[p] * x[r * in + k];
  }
  for (int r = 0; r < R; ++r)
    for (int p = 0; p < kParts; ++p) sums[r][p] = s[r][p];
}

template <int R>
void dispatch(int64_t rows, const float* x, int64_t in, const float* w, Ahead ahead,
              Floats (*sums)[kParts]) {
  if (rows == R) return strip<R>(x, in, w, ahead, sums);
  if constexpr (R > 1) dispatch<R - 1>(rows, x, in, w, ahead, sums);
}

void finish(const Floats* sums, const float* bias, int64_t columns, float* y) {
  float line[kPanel];
  std::memcpy(line, sums, sizeof line);
  for (int64_t i = 0; i < columns; ++i) y[i] = bias ? line[i] + bias[i] : line[i];
}

// One strip by rows `from` to `to`, in passes each of which fetches its part of the next strip.
void multiply_strip(const float* x, const float* packed, const float* bias, int64_t index,
                    int64_t from, int64_t to, int64_t out, int64_t in, float* y) {
  const int64_t first = index * kPanel, left = out - first, columns = left < kPanel ? left : kPanel;
  const int64_t passes = (to - from + kMostRows - 1) / kMostRows;
  const float* w = packed + first * in;
  Ahead ahead{(const char*)(w + in * kPanel), 0};
  if (left > kPanel) ahead.bytes = int64_t(sizeof(float)) * kPanel / passes;
  for (int64_t row = from, height; row < to; row += height) {
    const int64_t pieces = (to - row + kMostRows - 1) / kMostRows;
    height = (to - row + pieces - 1) / pieces;
    Floats sums[kMostRows][kParts];
    dispatch<kMostRows>(height, x + row * in, in, w, ahead, sums);
    ahead.from += in * ahead.bytes;
    for (int64_t r = 0; r < height; ++r)
      finish(sums[r], bias ? bias + first : nullptr, columns, y + (row + r) * out + first);
  }
}

}  // namespace
}  // namespace weir

using namespace weir;

// Packs [out, in] into strips [ceil(out / 32), in, 32], zero beyond `out`.
extern "C" WEIR_EXPORT void weir_pack_fp32(const float* weight, int64_t out, int64_t in, float* packed,
                               int threads) {
  const int64_t strips = (out + kPanel - 1) / kPanel;
#pragma omp parallel for num_threads(threads)
  for (int64_t s = 0; s < strips; ++s)
    for (int64_t k = 0; k < in; ++k)
      for (int64_t i = 0; i < kPanel; ++i) {
        const int64_t row = s * kPanel + i;
        packed[(s * in + k) * kPanel + i] = row < out ? weight[row * in + k] : 0.0f;
      }
}

// x [rows, in], packed as above, bias [out] or null, y [rows, out].
extern "C" WEIR_EXPORT void weir_linear_fp32(const float* x, const float* packed, const float* bias,
                                 int64_t rows, int64_t out, int64_t in, float* y, int threads) {
  const int64_t strips = (out + kPanel - 1) / kPanel, blocks = (rows + kRowBlock - 1) / kRowBlock;
#pragma omp parallel for num_threads(threads) schedule(guided, 2)
  for (int64_t index = 0; index < blocks * strips; ++index) {
    const int64_t from = index / strips * kRowBlock;
    const int64_t to = from + kRowBlock < rows ? from + kRowBlock : rows;
    multiply_strip(x, packed, bias, index % strips, from, to, out, in, y);
  }
}
