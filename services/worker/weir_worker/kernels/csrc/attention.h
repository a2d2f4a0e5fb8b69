// Causal attention over the paged cache, read where it lies.
//
// Keys are [blocks, kv_heads, dim, block_size], so that 16 neighbours in a sequence are one
// vector; values are [blocks, kv_heads, block_size, dim]. The softmax is kept running over tiles
// of 64 keys at absolute places (Dao et al., "FlashAttention", 2022): each query's sums depend
// on its own position and on nothing else in the call.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "vector.h"

namespace weir {

constexpr int kTile = 64;   // keys
constexpr int kGroup = 16;  // keys of one vector, or of two; divides every block size
constexpr int kRows = 4;    // queries computed side by side
constexpr int kParts = kGroup / kLanes;
constexpr int kTogether = kLanes == 16 ? kTile / kGroup : 1;  // groups whose sums fit in registers

struct Cache {
  int64_t kv_heads, dim, block_size;
  const float *keys, *values;
  const int32_t* table;  // of the sequence

  int64_t base(int64_t position, int64_t head) const {
    return (table[position / block_size] * kv_heads + head) * dim * block_size;
  }
  const float* key(int64_t position, int64_t head) const {
    return keys + base(position, head) + position % block_size;
  }
  const float* value(int64_t position, int64_t head) const {
    return values + base(position, head) + position % block_size * dim;
  }
};

// scores[r][0..] = q[r] . keys of `kTogether` groups.
template <int R>
void score_groups(const float* q, const float* const* keys, const Cache& c, float* scores) {
  Floats sums[R][kTogether][kParts] = {};
  for (int64_t d = 0; d < c.dim; ++d)
#pragma GCC unroll 8
    for (int g = 0; g < kTogether; ++g)
#pragma GCC unroll 2
      for (int p = 0; p < kParts; ++p) {
        const Floats k = load(keys[g] + d * c.block_size + p * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) sums[r][g][p] = sums[r][g][p] + k * q[r * c.dim + d];
      }
  for (int r = 0; r < R; ++r) std::memcpy(scores + r * kTile, sums[r], sizeof sums[r]);
}

// outputs[r] += weights[r] . values over `count` keys, for `W` vectors of columns.
template <int R, int W>
void add_values(const float* weights, const float* const* values, int count, int64_t dim,
                float* outputs) {
  Floats sums[R][W];
  for (int r = 0; r < R; ++r)
    for (int w = 0; w < W; ++w) sums[r][w] = load(outputs + r * dim + w * kLanes);
  for (int j = 0; j < count; ++j)
#pragma GCC unroll 8
    for (int w = 0; w < W; ++w) {
      const Floats v = load(values[j] + w * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sums[r][w] = sums[r][w] + v * weights[r * kTile + j];
    }
  for (int r = 0; r < R; ++r)
    for (int w = 0; w < W; ++w) store(outputs + r * dim + w * kLanes, sums[r][w]);
}

// Columns in strips whose sums fit in registers.
template <int R>
void add_all_values(const float* weights, const float* const* values, int count, int64_t dim,
                    float* outputs) {
  constexpr int W = kLanes == 16 ? 4 : 2;
  const float* strip[kTile];
  int64_t column = 0;
  for (; column + W * kLanes <= dim; column += W * kLanes) {
    for (int j = 0; j < count; ++j) strip[j] = values[j] + column;
    add_values<R, W>(weights, strip, count, dim, outputs + column);
  }
  for (; column < dim; column += kLanes) {
    for (int j = 0; j < count; ++j) strip[j] = values[j] + column;
    add_values<R, 1>(weights, strip, count, dim, outputs + column);
  }
}

struct Softmax {
  float peak = -std::numeric_limits<float>::infinity(), sum = 0;
};

// Turns the scores of keys `from` to `to` into weights, the others into 0; returns what earlier
// sums shrink by.
inline float soften(float* scores, int from, int to, Softmax& state) {
  if (from >= to) {
    std::memset(scores, 0, kTile * sizeof(float));
    return 1.0f;
  }
  float peak = state.peak;
  for (int j = from; j < to; ++j) peak = scores[j] > peak ? scores[j] : peak;
  for (int j = 0; j < kTile; j += kLanes) store(scores + j, exp(load(scores + j) - peak));
  for (int j = 0; j < from; ++j) scores[j] = 0;
  for (int j = to; j < kTile; ++j) scores[j] = 0;
  float lanes[kSums] = {};
  for (int j = 0; j < kTile; j += kSums)
    for (int l = 0; l < kSums; ++l) lanes[l] += scores[j + l];
  const float shrink = exp(spread(state.peak - peak))[0];
  state.sum = state.sum * shrink + tree_sum(lanes);
  state.peak = peak;
  return shrink;
}

struct Scratch {
  std::vector<float> q, scores, outputs;
  std::vector<Softmax> states;

  void fit(int64_t rows, int64_t dim) {
    if (q.size() < size_t(rows * dim)) q.resize(rows * dim), outputs.resize(rows * dim);
    if (scores.size() < size_t(rows * kTile)) scores.resize(rows * kTile);
    std::fill_n(outputs.begin(), rows * dim, 0.0f);
    states.assign(rows, Softmax{});
  }
};

#define WEIR_BY_ROWS(rows, call)  \
  switch (rows) {                 \
    case 1: call(1); break;       \
    case 2: call(2); break;       \
    case 3: call(3); break;       \
    default: call(4); break;      \
  }

inline void score_tile(const Cache& c, int64_t head, int64_t tile, int count, int64_t rows, Scratch& s) {
  for (int group = 0; group * kGroup < count; group += kTogether) {
    const float* keys[kTogether];
    for (int g = 0; g < kTogether; ++g) {
      // A group beyond the last key is read as the last one and weighs nothing.
      const int64_t wanted = tile + (group + g) * kGroup;
      const int64_t last = tile + (count - 1) / kGroup * kGroup;
      keys[g] = c.key(wanted < last ? wanted : last, head);
    }
    for (int64_t row = 0; row < rows; row += kRows) {
      const float* q = s.q.data() + row * c.dim;
      float* scores = s.scores.data() + row * kTile + group * kGroup;
#define WEIR_SCORE(R) score_groups<R>(q, keys, c, scores)
      WEIR_BY_ROWS(rows - row, WEIR_SCORE)
    }
  }
}

inline void weigh_tile(const Cache& c, int64_t head, int64_t tile, int count, int64_t rows, Scratch& s) {
  const float* values[kTile];
  for (int group = 0; group < count; group += kGroup) {
    const float* first = c.value(tile + group, head);
    for (int j = 0; j < kGroup; ++j) values[group + j] = first + j * c.dim;
  }
  for (int64_t row = 0; row < rows; row += kRows) {
    const float* weights = s.scores.data() + row * kTile;
    float* outputs = s.outputs.data() + row * c.dim;
#define WEIR_WEIGH(R) add_all_values<R>(weights, values, count, c.dim, outputs)
    WEIR_BY_ROWS(rows - row, WEIR_WEIGH)
  }
}

// Neighbouring rows of one sequence.
struct Task {
  int64_t first, count;  // rows of q
  int64_t start;         // position of the first
  int64_t table;         // where the sequence's blocks begin
};

inline void soften_tile(const Task& task, int64_t fold, int64_t window, int64_t tile, int64_t dim,
                 Scratch& s) {
  const int64_t rows = task.count * fold;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t to = task.start + row / fold + 1 - tile, from = window ? to - window : 0;
    const float shrink = soften(s.scores.data() + row * kTile, int(std::clamp<int64_t>(from, 0, kTile)),
                                int(std::clamp<int64_t>(to, 0, kTile)), s.states[row]);
    float* outputs = s.outputs.data() + row * dim;
    for (int64_t d = 0; d < dim; d += kLanes) store(outputs + d, load(outputs + d) * shrink);
  }
}

inline void attend(const Task& task, const Cache& c, int64_t head, int64_t fold, int64_t window,
            Scratch& s) {
  const int64_t rows = task.count * fold, end = task.start + task.count;
  const int64_t first = window ? std::max<int64_t>(0, task.start + 1 - window) : 0;
  for (int64_t tile = first / kTile * kTile; tile < end; tile += kTile) {
    const int count = int(std::min<int64_t>(end - tile, kTile));
    score_tile(c, head, tile, count, rows, s);
    soften_tile(task, fold, window, tile, c.dim, s);
    weigh_tile(c, head, tile, count, rows, s);
  }
}

// Stores the keys and values of one row, [kv_heads, dim] each, at its slot.
inline void store_row(const float* k, const float* v, int64_t slot, int64_t kv_heads, int64_t dim,
                      int64_t block_size, float* keys, float* values) {
  const int64_t block = slot / block_size, place = slot % block_size;
  for (int64_t head = 0; head < kv_heads; ++head) {
    const int64_t base = (block * kv_heads + head) * dim * block_size;
    const float* key = k + head * dim;
    for (int64_t d = 0; d < dim; ++d) keys[base + d * block_size + place] = key[d];
    std::memcpy(values + base + place * dim, v + head * dim, dim * sizeof(float));
  }
}

// One task for one KV head: q is [rows, heads, dim] with rows `stride` apart, out without gaps.
inline void attend_task(const Task& task, int64_t head, const float* q, int64_t stride,
                        const Cache& cache, int64_t heads, int64_t window, float* out) {
  static thread_local Scratch s;
  const int64_t dim = cache.dim, fold = heads / cache.kv_heads, rows = task.count * fold;
  const float scale = 1.0f / std::sqrt(float(dim));
  s.fit(rows, dim);
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = q + (task.first + row / fold) * stride + (head * fold + row % fold) * dim;
    for (int64_t d = 0; d < dim; ++d) s.q[row * dim + d] = from[d] * scale;
  }
  attend(task, cache, head, fold, window, s);
  for (int64_t row = 0; row < rows; ++row) {
    float* to = out + ((task.first + row / fold) * heads + head * fold + row % fold) * dim;
    const float share = 1.0f / s.states[row].sum;
    for (int64_t d = 0; d < dim; ++d) to[d] = s.outputs[row * dim + d] * share;
  }
}

}  // namespace weir
