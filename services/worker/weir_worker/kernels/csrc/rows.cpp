// What is done to each row by itself: norm, rotation, gate.
#include <cmath>

#include "hadamard.h"
#include "vector.h"

namespace weir {
namespace {

void rms_norm_row(const float* x, const float* gain, float eps, int64_t width, float* out) {
  const float scale = 1.0f / std::sqrt(square_sum(x, width) / float(width) + eps);
  for (int64_t i = 0; i < width; i += kLanes)
    store(out + i, load(x + i) * scale * load(gain + i));
}

// The two halves of a head are the two coordinates; the sines of the first half are negated.
void rotate_head(float* x, const float* cos, const float* sin, int64_t dim) {
  const int64_t half = dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float left = x[i], right = x[i + half];
    x[i] = left * cos[i] + right * sin[i];
    x[i + half] = right * cos[i + half] + left * sin[i + half];
  }
}

}  // namespace
}  // namespace weir

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
  for (int64_t row = 0; row < rows; ++row) {
    const float* gate = gate_up + 2 * row * width;
    float* product = out + row * width;
    for (int64_t i = 0; i < width; i += kLanes) {
      const Floats g = load(gate + i);
      store(product + i, g / (1.0f + exp(-g)) * load(gate + width + i));
    }
    if (hadamard) transform(product, width, *hadamard);
  }
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
