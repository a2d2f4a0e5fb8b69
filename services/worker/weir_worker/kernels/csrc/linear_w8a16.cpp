// The layer of linear_w8a16.h by itself.
#include "linear_w8a16.h"

using namespace weir;
using namespace weir::wide;

// Packs int8 [out, in] into strips of 16 outputs, zero beyond both sizes.
extern "C" WEIR_EXPORT void weir_pack_w8a16(const int8_t* weight, int64_t out, int64_t in,
                                            int8_t* packed, int threads) {
  const int64_t depth = depth_of(in), strips = (out + kPanel - 1) / kPanel;
#pragma omp parallel for num_threads(threads)
  for (int64_t s = 0; s < strips; ++s)
    for (int64_t i = 0; i < kPanel; ++i)
      for (int64_t k = 0; k < depth; ++k) {
        const int64_t row = s * kPanel + i;
        packed[s * depth * kPanel + k / 2 * 2 * kPanel + i * 2 + k % 2] =
            row < out && k < in ? weight[row * in + k] : 0;
      }
}

// x [rows, in] -> y [rows, out].
extern "C" WEIR_EXPORT void weir_linear_w8a16(const Weight* weight, const float* x, int64_t rows,
                                              float* y, int threads) {
  static thread_local Rows quantised;  // the caller's; shared with the threads of this call
  Rows& shared = quantised;
  const int64_t in = weight->in, depth = depth_of(in);
  shared.fit(rows, in);
#pragma omp parallel num_threads(threads)
  {
#pragma omp for
    for (int64_t row = 0; row < rows; ++row)
      shared.scales[row] = quantise(x + row * in, in, shared.levels.data() + row * depth);
    multiply(*weight, shared, rows, false, y);
  }
}
