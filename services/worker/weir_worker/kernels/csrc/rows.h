// What is done to each row by itself: norm, rotation, gate.
#pragma once

#include <cmath>

#include "hadamard.h"
#include "vector.h"

namespace weir {

// out = x / rms(x) * gain; width % 16 == 0.
inline void rms_norm_row(const float* x, const float* gain, float eps, int64_t width, float* out) {
  const float scale = 1.0f / std::sqrt(square_sum(x, width) / float(width) + eps);
  for (int64_t i = 0; i < width; i += kLanes)
    store(out + i, load(x + i) * scale * load(gain + i));
}

// The two halves of a head are the two coordinates; the sines of the first half are negated.
inline void rotate_head(float* x, const float* cos, const float* sin, int64_t dim) {
  const int64_t half = dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float left = x[i], right = x[i + half];
    x[i] = left * cos[i] + right * sin[i];
    x[i + half] = right * cos[i + half] + left * sin[i + half];
  }
}

// out = silu(gate) * up, transformed unless `hadamard` is null; gate_up is [2 * width], gate
// first; width % 16 == 0.
inline void silu_mul_row(const float* gate_up, int64_t width, const Hadamard* hadamard,
                         float* out) {
  for (int64_t i = 0; i < width; i += kLanes) {
    const Floats g = load(gate_up + i);
    store(out + i, g / (1.0f + exp(-g)) * load(gate_up + width + i));
  }
  if (hadamard) transform(out, width, *hadamard);
}

}  // namespace weir
