// y = x W^T + b in fp32. Each element is one chain of fused multiply-adds in order of k, so it is
// the same at every number of rows and threads and on every processor.
#include "vector.h"

namespace weir {
namespace {

constexpr int kPanel = 32;  // outputs of one strip of packed weights
constexpr int kParts = kPanel / kLanes;
constexpr int kMostRows = kLanes == 16 ? 12 : 3;
constexpr int64_t kRowBlock = 96;  // rows that stay in a core's cache

template <int R>
void strip(const float* x, int64_t in, const float* w, Floats (*sums)[kParts]) {
  Floats s[R][kParts] = {};
  for (int64_t k = 0; k < in; ++k)
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) {
      const Floats weight = load(w + k * kPanel + p * kLanes);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) s[r][p] = s[r][p] + weight * x[r * in + k];
    }
  for (int r = 0; r < R; ++r)
    for (int p = 0; p < kParts; ++p) sums[r][p] = s[r][p];
}

template <int R>
void dispatch(int64_t rows, const float* x, int64_t in, const float* w, Floats (*sums)[kParts]) {
  if (rows == R) return strip<R>(x, in, w, sums);
  if constexpr (R > 1) dispatch<R - 1>(rows, x, in, w, sums);
}

void finish(const Floats* sums, const float* bias, int64_t columns, float* y) {
  float line[kPanel];
  std::memcpy(line, sums, sizeof line);
  for (int64_t i = 0; i < columns; ++i) y[i] = bias ? line[i] + bias[i] : line[i];
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
#pragma omp parallel for collapse(2) num_threads(threads)
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t s = 0; s < strips; ++s) {
      const int64_t left = out - s * kPanel, columns = left < kPanel ? left : kPanel;
      const int64_t end = (block + 1) * kRowBlock < rows ? (block + 1) * kRowBlock : rows;
      for (int64_t row = block * kRowBlock; row < end;) {
        const int64_t pieces = (end - row + kMostRows - 1) / kMostRows;
        const int64_t height = (end - row + pieces - 1) / pieces;
        Floats sums[kMostRows][kParts];
        dispatch<kMostRows>(height, x + row * in, in, packed + s * in * kPanel, sums);
        for (int64_t r = 0; r < height; ++r)
          finish(sums[r], bias ? bias + s * kPanel : nullptr, columns,
                 y + (row + r) * out + s * kPanel);
        row += height;
      }
    }
}
