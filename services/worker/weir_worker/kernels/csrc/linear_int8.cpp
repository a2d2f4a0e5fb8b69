// The product of linear_int8.h, and what it needs beforehand.
#include "linear_int8.h"

#if defined(__AMX_INT8__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

using namespace weir;
using namespace weir::bytes;

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
  const int64_t depth = depth_of(in);
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
extern "C" WEIR_EXPORT void weir_linear_int8(const Weight* weight, const float* x, int64_t rows,
                                             float* y, int threads) {
  static thread_local Rows own;  // the caller's; shared with the threads of this call
  Rows& q = own;
  const Weight& w = *weight;
  q.fit(rows, w.in);
#pragma omp parallel num_threads(threads)
  {
    const Tiles tiles;
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row)
      quantise_row(w, x + row * w.in, row, q);
    multiply(w, q, rows, false, y);
  }
}
