// The functions of rows.h over all rows.
#include "rows.h"

using namespace weir;

// out = x / rms(x) * gain; [rows, width], width % 16 == 0.
extern "C" WEIR_EXPORT void weir_rms_norm(const float* x, const float* gain, float eps,
                                          int64_t rows, int64_t width, float* out, int threads) {
#pragma omp parallel for num_threads(threads) if (rows * width > kWorthAThread)
  for (int64_t row = 0; row < rows; ++row)
    rms_norm_row(x + row * width, gain, eps, width, out + row * width);
}

// out = silu(gate) * up, transformed unless `hadamard` is null; gate_up is [rows, 2 * width],
// gate first; width % 16 == 0.
extern "C" WEIR_EXPORT void weir_silu_mul(const float* gate_up, int64_t rows, int64_t width,
                                          const Hadamard* hadamard, float* out, int threads) {
#pragma omp parallel for num_threads(threads) if (rows * width > kWorthAThread)
  for (int64_t row = 0; row < rows; ++row)
    silu_mul_row(gate_up + 2 * row * width, width, hadamard, out + row * width);
}

// Rotates the first `heads` heads of x [rows, ., dim] in place, whose rows are `stride` apart;
// cos and sin are [rows, dim], dim % 16 == 0.
extern "C" WEIR_EXPORT void weir_rotate(float* x, int64_t stride, const float* cos,
                                        const float* sin, int64_t rows, int64_t heads, int64_t dim,
                                        int threads) {
#pragma omp parallel for num_threads(threads) if (rows * heads * dim > kWorthAThread)
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t head = 0; head < heads; ++head)
      rotate_head(x + row * stride + head * dim, cos + row * dim, sin + row * dim, dim);
}
