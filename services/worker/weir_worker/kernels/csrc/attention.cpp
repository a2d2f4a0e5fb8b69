// The attention of attention.h over all rows of a step.
#include "attention.h"

using namespace weir;

// `half`: the cache holds numbers of 16 bits, not of 32.
//
// Stores keys and values [rows, kv_heads, dim], whose rows are a stride apart, at their slots
// (block * block_size + place).
extern "C" WEIR_EXPORT void weir_store(const float* k, int64_t k_stride, const float* v,
                                       int64_t v_stride, const int64_t* slots, int64_t rows,
                                       int64_t kv_heads, int64_t dim, int64_t block_size, int half,
                                       void* keys, void* values, int threads) {
  // Each element of a key is in a line of memory of its own: few rows are work enough.
#pragma omp parallel for num_threads(threads) if (rows * kv_heads * dim > kWorthAThread / 16)
  for (int64_t row = 0; row < rows; ++row)
    store_row(k + row * k_stride, v + row * v_stride, slots[row], kv_heads, dim, block_size, half,
              keys, values);
}

// q is [rows, heads, dim] with rows `stride` apart, out the same without gaps. A row sees the
// last `window` keys, itself included, or all if that is 0. dim and block_size are multiples of
// 16. `tables` are the blocks of the sequences, one sequence after the other.
extern "C" WEIR_EXPORT void weir_attend(const float* q, int64_t stride, const void* keys,
                                        const void* values, const int32_t* tables,
                                        const Task* tasks, int64_t num_tasks, int64_t heads,
                                        int64_t kv_heads, int64_t dim, int64_t block_size,
                                        int64_t window, int half, float* out, int threads) {
  static thread_local Pieces own;  // the caller's; shared with the threads of this call
  Pieces& pieces = own;
  const Attention attention{tasks, num_tasks, q,        stride, keys,       values, tables,
                            heads, kv_heads,  dim, block_size, window, half != 0, out};
#pragma omp parallel num_threads(threads)
  attend(attention, pieces);
}
