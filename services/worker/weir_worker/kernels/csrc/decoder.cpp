// All layers of a Llama decoder in one call: what stands between the embedding and the last norm.
//
// Each part is that of the calls by themselves, in the same order, so that the bits are the same;
// what is saved is going in and out of Python some ten times a layer, and memory for each result.
#include <vector>

#include "attention.h"
#include "linear_int8.h"
#include "linear_w8a16.h"
#include "rows.h"

namespace weir {
namespace {

#if defined(__AVX512VNNI__)
namespace linear = bytes;
#else
namespace linear = wide;
#endif
using linear::Weight;

struct Layer {
  const float *attention_gain, *mlp_gain;
  const Weight *qkv, *output, *gate_up, *down;
  void *keys, *values;      // of the cache
  const float *cos, *sin;   // of every position, [max_context, dim]
  int64_t window;           // 0: none
};

struct Decoder {
  int64_t num_layers, hidden, heads, kv_heads, dim, intermediate, block_size;
  int64_t half;  // 1: the cache holds numbers of 16 bits
  float eps;
  const Hadamard* hadamard;  // of what enters `down`, or null
  const Layer* layers;
};

struct Step {
  int64_t rows;
  const int64_t *positions, *slots;  // [rows]
  const int32_t* tables;
  const Task* tasks;
  int64_t num_tasks;
  const int64_t* wanted;  // rows whose result is asked for, ascending
  int64_t num_wanted;
};

struct Work {
  linear::Rows quantised;
  Pieces pieces;
  std::vector<float> qkv, attended, gate_up, x;

  void fit(const Decoder& d, int64_t rows) {
    quantised.fit(rows, d.hidden);
    quantised.fit(rows, d.heads * d.dim);
    quantised.fit(rows, d.intermediate);
    grow(qkv, rows * (d.heads + 2 * d.kv_heads) * d.dim);
    grow(attended, rows * d.heads * d.dim);
    grow(gate_up, rows * 2 * d.intermediate);
  }

 private:
  static void grow(std::vector<float>& v, int64_t size) {
    if (v.size() < size_t(size)) v.resize(size);
  }
};

// The functions below are called by all threads of a region, which share out their rows and wait
// for each other at the end.

void quantise_normed(const float* x, const float* gain, const Decoder& d, int64_t rows,
                     const Weight& into, linear::Rows& out) {
  static thread_local std::vector<float> normed;
  normed.resize(d.hidden);
#pragma omp for schedule(static)
  for (int64_t row = 0; row < rows; ++row) {
    rms_norm_row(x + row * d.hidden, gain, d.eps, d.hidden, normed.data());
    linear::quantise_row(into, normed.data(), row, out);
  }
}

void quantise_gated(const float* gate_up, const Decoder& d, int64_t rows, const Weight& into,
                    linear::Rows& out) {
  static thread_local std::vector<float> gated;
  gated.resize(d.intermediate);
#pragma omp for schedule(static)
  for (int64_t row = 0; row < rows; ++row) {
    silu_mul_row(gate_up + 2 * row * d.intermediate, d.intermediate, d.hadamard, gated.data());
    linear::quantise_row(into, gated.data(), row, out);
  }
}

void quantise_plain(const float* x, int64_t rows, const Weight& into, linear::Rows& out) {
#pragma omp for schedule(static)
  for (int64_t row = 0; row < rows; ++row)
    linear::quantise_row(into, x + row * into.in, row, out);
}

void rotate_and_store(float* qkv, const Decoder& d, const Layer& layer, const Step& step) {
  const int64_t stride = (d.heads + 2 * d.kv_heads) * d.dim, rotated = d.heads + d.kv_heads;
#pragma omp for schedule(static)
  for (int64_t row = 0; row < step.rows; ++row) {
    float* x = qkv + row * stride;
    const int64_t angle = step.positions[row] * d.dim;
    for (int64_t head = 0; head < rotated; ++head)
      rotate_head(x + head * d.dim, layer.cos + angle, layer.sin + angle, d.dim);
    store_row(x + d.heads * d.dim, x + rotated * d.dim, step.slots[row], d.kv_heads, d.dim,
              d.block_size, d.half, layer.keys, layer.values);
  }
}

void attend_all(const float* qkv, const Decoder& d, const Layer& layer, const Step& step,
                Pieces& pieces, float* out) {
  const int64_t stride = (d.heads + 2 * d.kv_heads) * d.dim;
  attend({step.tasks, step.num_tasks, qkv, stride, layer.keys, layer.values, step.tables, d.heads,
          d.kv_heads, d.dim, d.block_size, layer.window, d.half != 0, out},
         pieces);
}

// Keeps the wanted rows of x and of what was attended, which move to the front.
void keep_wanted(const Decoder& d, const Step& step, float* x, float* attended) {
  const int64_t width = d.heads * d.dim;
#pragma omp single
  for (int64_t i = 0; i < step.num_wanted; ++i) {
    const int64_t row = step.wanted[i];
    std::memmove(x + i * d.hidden, x + row * d.hidden, d.hidden * sizeof(float));
    std::memmove(attended + i * width, attended + row * width, width * sizeof(float));
  }
}

void run_layer(const Decoder& d, const Layer& layer, const Step& step, bool last, float* x,
               Work& work) {
  quantise_normed(x, layer.attention_gain, d, step.rows, *layer.qkv, work.quantised);
  linear::multiply(*layer.qkv, work.quantised, step.rows, false, work.qkv.data());
  rotate_and_store(work.qkv.data(), d, layer, step);
  int64_t rows = step.rows;
  if (last) rows = step.num_wanted;
  if (!rows) return;
  attend_all(work.qkv.data(), d, layer, step, work.pieces, work.attended.data());
  if (last) keep_wanted(d, step, x, work.attended.data());
  quantise_plain(work.attended.data(), rows, *layer.output, work.quantised);
  linear::multiply(*layer.output, work.quantised, rows, true, x);
  quantise_normed(x, layer.mlp_gain, d, rows, *layer.gate_up, work.quantised);
  linear::multiply(*layer.gate_up, work.quantised, rows, false, work.gate_up.data());
  quantise_gated(work.gate_up.data(), d, rows, *layer.down, work.quantised);
  linear::multiply(*layer.down, work.quantised, rows, true, x);
}

}  // namespace
}  // namespace weir

using namespace weir;

// Computes the residual stream x [rows, hidden] in place and writes the cache; in the end the
// first rows of x are the wanted ones, in their order.
extern "C" WEIR_EXPORT void weir_decode(const Decoder* decoder, const Step* step, float* x,
                                        int threads) {
  static thread_local Work own;  // the caller's; shared with the threads of this call
  Work& work = own;
  work.fit(*decoder, step->rows);
#pragma omp parallel num_threads(threads)
  {
    const linear::Tiles tiles;
    for (int64_t index = 0; index < decoder->num_layers; ++index)
      run_layer(*decoder, decoder->layers[index], *step, index + 1 == decoder->num_layers, x, work);
  }
}
