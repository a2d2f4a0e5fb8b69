// Causal attention over the paged cache, read where it lies.
//
// Keys are [blocks, kv_heads, dim, block_size], so that 16 neighbours in a sequence are one
// vector; values are [blocks, kv_heads, block_size, dim]. The softmax is kept running over tiles
// of 64 keys at absolute places (Dao et al., "FlashAttention", 2022), and begun anew in each span
// of 1,024; spans are merged in order (Dao et al., "Flash-Decoding", 2023), whether one thread
// computes them all or several share a long context: each query's sums depend on its own position
// and on nothing else in the call.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "vector.h"

namespace weir {

constexpr int kTile = 64;   // keys
constexpr int64_t kSpan = 1024;    // keys, a multiple of a tile
constexpr int64_t kFewRows = 128;  // up to here threads share the spans of one row
constexpr int kGroup = 16;  // keys of one vector, or of two; divides every block size
constexpr int kRows = 4;    // queries computed side by side
constexpr int kParts = kGroup / kLanes;
constexpr int kTogether = kLanes == 16 ? kTile / kGroup : 1;  // groups whose sums fit in registers

// T is `float` or `Half`.
template <class T>
struct Cache {
  int64_t kv_heads, dim, block_size;
  const T *keys, *values;
  const int32_t* table;  // of the sequence

  int64_t base(int64_t position, int64_t head) const {
    return (table[position / block_size] * kv_heads + head) * dim * block_size;
  }
  const T* key(int64_t position, int64_t head) const {
    return keys + base(position, head) + position % block_size;
  }
  const T* value(int64_t position, int64_t head) const {
    return values + base(position, head) + position % block_size * dim;
  }
};

// scores[r][0..] = q[r] . keys of `kTogether` groups, whose dimensions are a stride apart; those
// at `next` are fetched meanwhile.
template <int R, class T>
void score_groups(const float* q, const T* const* keys, const T* const* next, int64_t dim,
                  int64_t stride, float* scores) {
  Floats sums[R][kTogether][kParts] = {};
  for (int64_t d = 0; d < dim; ++d)
#pragma GCC unroll 8
    for (int g = 0; g < kTogether; ++g) {
      _mm_prefetch((const char*)(next[g] + d * stride), _MM_HINT_T0);
#pragma GCC unroll 2
      for (int p = 0; p < kParts; ++p) {
        const Floats k = load(keys[g] + d * stride + p * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) sums[r][g][p] = sums[r][g][p] + k * q[r * dim + d];
      }
    }
  for (int r = 0; r < R; ++r) std::memcpy(scores + r * kTile, sums[r], sizeof sums[r]);
}

// outputs[r] += weights[r] . values over `count` keys, for `W` vectors of columns.
template <int R, int W, class T>
void add_values(const float* weights, const T* const* values, int count, int64_t dim,
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
template <int R, class T>
void add_all_values(const float* weights, const T* const* values, int count, int64_t dim,
                    float* outputs) {
  constexpr int W = kLanes == 16 ? 4 : 2;
  const T* strip[kTile];
  int64_t column = 0;
  for (; column + W * kLanes <= dim; column += W * kLanes) {
    for (int j = 0; j < count; ++j) strip[j] = values[j] + column;
    add_values<R, W, T>(weights, strip, count, dim, outputs + column);
  }
  for (; column < dim; column += kLanes) {
    for (int j = 0; j < count; ++j) strip[j] = values[j] + column;
    add_values<R, 1, T>(weights, strip, count, dim, outputs + column);
  }
}

struct Softmax {
  float peak = -std::numeric_limits<float>::infinity(), sum = 0;
};

// The largest of `peak` and the scores from `from` to `to`; NaN among them is passed over.
inline float largest(const float* scores, int from, int to, float peak) {
  Floats most = spread(peak);
  int j = from;
  for (; j + kLanes <= to; j += kLanes) {
    const Floats some = load(scores + j);
    most = some > most ? some : most;
  }
  for (int lane = 0; lane < kLanes; ++lane) peak = most[lane] > peak ? most[lane] : peak;
  for (; j < to; ++j) peak = scores[j] > peak ? scores[j] : peak;
  return peak;
}

// Turns the scores of keys `from` to `to` into weights, the others into 0; returns what earlier
// sums shrink by.
inline float soften(float* scores, int from, int to, Softmax& state) {
  if (from >= to) {
    std::memset(scores, 0, kTile * sizeof(float));
    return 1.0f;
  }
  const float peak = largest(scores, from, to, state.peak);
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
  std::vector<float> q, scores, outputs, all_outputs;
  std::vector<float> keys, values;  // of one tile, in 32 bits: [dim, kTile], [kTile, dim]
  std::vector<Softmax> states, all_states;  // of one span, of all

  void fit(int64_t rows, int64_t dim) {
    if (q.size() < size_t(rows * dim))
      q.resize(rows * dim), outputs.resize(rows * dim), all_outputs.resize(rows * dim);
    if (scores.size() < size_t(rows * kTile)) scores.resize(rows * kTile);
    all_states.assign(rows, Softmax{});
  }
  void clear(int64_t rows, int64_t dim) {
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

template <class T>
inline void score_rows(const T* const* keys, const T* const* next, int64_t dim, int64_t stride,
                       int64_t rows, int group, Scratch& s) {
  for (int64_t row = 0; row < rows; row += kRows) {
    const float* q = s.q.data() + row * dim;
    float* scores = s.scores.data() + row * kTile + group * kGroup;
#define WEIR_SCORE(R) score_groups<R, T>(q, keys, row ? keys : next, dim, stride, scores)
    WEIR_BY_ROWS(rows - row, WEIR_SCORE)
  }
}

// `end`: of the keys; the tile after this one is fetched as far as there is one.
template <class T>
inline void score_tile(const Cache<T>& c, int64_t head, int64_t tile, int count, int64_t end,
                       int64_t rows, Scratch& s) {
  for (int group = 0; group * kGroup < count; group += kTogether) {
    const T *keys[kTogether], *next[kTogether];
    for (int g = 0; g < kTogether; ++g) {
      // A group beyond the last key is read as the last one and weighs nothing.
      const int64_t wanted = tile + (group + g) * kGroup;
      const int64_t last = tile + (count - 1) / kGroup * kGroup;
      keys[g] = c.key(wanted < last ? wanted : last, head);
      next[g] = wanted + kTile < end ? c.key(wanted + kTile, head) : keys[g];
    }
    score_rows(keys, next, c.dim, c.block_size, rows, group, s);
  }
}

// The same for many rows: the keys are brought to 32 bits once for all of them.
inline void score_widened(const Cache<Half>& c, int64_t head, int64_t tile, int count, int64_t end,
                          int64_t rows, Scratch& s) {
  s.keys.resize(c.dim * kTile);
  for (int group = 0; group * kGroup < count; ++group) {
    const int64_t key = tile + group * kGroup;
    const Half* from = c.key(key, head);
    const Half* next = key + kTile < end ? c.key(key + kTile, head) : from;
    float* to = s.keys.data() + group * kGroup;
    for (int64_t d = 0; d < c.dim; ++d) {
      _mm_prefetch((const char*)(next + d * c.block_size), _MM_HINT_T0);
      for (int i = 0; i < kGroup; i += kLanes)
        store(to + d * kTile + i, load(from + d * c.block_size + i));
    }
  }
  for (int group = 0; group * kGroup < count; group += kTogether) {
    const float* keys[kTogether];
    for (int g = 0; g < kTogether; ++g)
      keys[g] = s.keys.data() + std::min((group + g) * kGroup, (count - 1) / kGroup * kGroup);
    score_rows(keys, keys, c.dim, kTile, rows, group, s);
  }
}

// Fetches the values of the tile after this one, as far as there is one.
template <class T>
inline void fetch_values(const Cache<T>& c, int64_t head, int64_t tile, int64_t end) {
  for (int64_t key = tile + kTile; key < tile + 2 * kTile && key < end; key += kGroup) {
    const char* first = (const char*)c.value(key, head);
    for (int64_t byte = 0; byte < kGroup * c.dim * int64_t(sizeof(T)); byte += 64)
      _mm_prefetch(first + byte, _MM_HINT_T1);
  }
}

template <class T>
inline void weigh_rows(const T* const* values, int count, int64_t dim, int64_t rows, Scratch& s) {
  for (int64_t row = 0; row < rows; row += kRows) {
    const float* weights = s.scores.data() + row * kTile;
    float* outputs = s.outputs.data() + row * dim;
#define WEIR_WEIGH(R) add_all_values<R, T>(weights, values, count, dim, outputs)
    WEIR_BY_ROWS(rows - row, WEIR_WEIGH)
  }
}

template <class T>
inline void weigh_tile(const Cache<T>& c, int64_t head, int64_t tile, int count, int64_t rows,
                       Scratch& s) {
  const T* values[kTile];
  for (int group = 0; group < count; group += kGroup) {
    const T* first = c.value(tile + group, head);
    for (int j = 0; j < kGroup; ++j) values[group + j] = first + j * c.dim;
  }
  weigh_rows(values, count, c.dim, rows, s);
}

// The same for many rows: the values are brought to 32 bits once for all of them.
inline void weigh_widened(const Cache<Half>& c, int64_t head, int64_t tile, int count, int64_t rows,
                          Scratch& s) {
  s.values.resize(kTile * c.dim);
  const float* values[kTile];
  for (int group = 0; group < count; group += kGroup) {
    const Half* from = c.value(tile + group, head);
    float* to = s.values.data() + group * c.dim;
    for (int64_t i = 0; i < kGroup * c.dim; i += kLanes) store(to + i, load(from + i));
    for (int j = 0; j < kGroup; ++j) values[group + j] = to + j * c.dim;
  }
  weigh_rows(values, count, c.dim, rows, s);
}

inline bool widens(const Cache<float>&, int64_t) { return false; }
inline bool widens(const Cache<Half>&, int64_t rows) { return rows > 3 * kRows; }
inline void score_widened(const Cache<float>&, int64_t, int64_t, int, int64_t, int64_t, Scratch&) {}
inline void weigh_widened(const Cache<float>&, int64_t, int64_t, int, int64_t, Scratch&) {}

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

inline int64_t first_key(const Task& task, int64_t window) {
  return window ? std::max<int64_t>(0, task.start + 1 - window) : 0;
}

// The sums over the keys of one span, into the scratch.
template <class T>
inline void attend_span(const Task& task, const Cache<T>& c, int64_t head, int64_t fold,
                        int64_t window, int64_t span, Scratch& s) {
  const int64_t rows = task.count * fold, all = task.start + task.count;
  const int64_t first = std::max(first_key(task, window), span * kSpan);
  const int64_t end = std::min(all, (span + 1) * kSpan);
  s.clear(rows, c.dim);
  for (int64_t tile = first / kTile * kTile; tile < end; tile += kTile) {
    const int count = int(std::min<int64_t>(end - tile, kTile));
    const bool widened = widens(c, rows);
    if (widened) score_widened(c, head, tile, count, all, rows, s);
    else score_tile(c, head, tile, count, all, rows, s);
    fetch_values(c, head, tile, all);
    soften_tile(task, fold, window, tile, c.dim, s);
    if (widened) weigh_widened(c, head, tile, count, rows, s);
    else weigh_tile(c, head, tile, count, rows, s);
  }
}

// Adds sums over further keys; rows that saw none of them stay as they are.
inline void merge(const float* outputs, const Softmax* states, int64_t rows, int64_t dim,
                  float* all_outputs, Softmax* all) {
  for (int64_t row = 0; row < rows; ++row, outputs += dim, all_outputs += dim) {
    const Softmax more = states[row];
    if (more.sum == 0) continue;
    if (all[row].sum == 0) {
      all[row] = more;
      std::memcpy(all_outputs, outputs, dim * sizeof(float));
      continue;
    }
    const float peak = more.peak > all[row].peak ? more.peak : all[row].peak;
    const float old = exp(spread(all[row].peak - peak))[0], fresh = exp(spread(more.peak - peak))[0];
    all[row].sum = all[row].sum * old + more.sum * fresh;
    all[row].peak = peak;
    for (int64_t d = 0; d < dim; d += kLanes)
      store(all_outputs + d, load(all_outputs + d) * old + load(outputs + d) * fresh);
  }
}

// Stores the keys and values of one row, [kv_heads, dim] each, at its slot.
template <class T>
inline void store_row(const float* k, const float* v, int64_t slot, int64_t kv_heads, int64_t dim,
                      int64_t block_size, T* keys, T* values) {
  const int64_t block = slot / block_size, place = slot % block_size;
  for (int64_t head = 0; head < kv_heads; ++head) {
    const int64_t base = (block * kv_heads + head) * dim * block_size;
    const float* key = k + head * dim;
    for (int64_t d = 0; d < dim; ++d) put(keys + base + d * block_size + place, key[d]);
    for (int64_t d = 0; d < dim; ++d) put(values + base + place * dim + d, v[head * dim + d]);
  }
}

// The same into a cache of `Half` numbers or of `float`.
inline void store_row(const float* k, const float* v, int64_t slot, int64_t kv_heads, int64_t dim,
                      int64_t block_size, bool half, void* keys, void* values) {
  if (half) store_row(k, v, slot, kv_heads, dim, block_size, (Half*)keys, (Half*)values);
  else store_row(k, v, slot, kv_heads, dim, block_size, (float*)keys, (float*)values);
}

// What a call attends to: q is [rows, heads, dim] with rows `stride` apart, out without gaps.
struct Attention {
  const Task* tasks;
  int64_t num_tasks;
  const float* q;
  int64_t stride;
  const void *keys, *values;
  const int32_t* tables;
  int64_t heads, kv_heads, dim, block_size, window;
  bool half;  // the cache holds `Half` numbers, not `float`
  float* out;

  int64_t fold() const { return heads / kv_heads; }
  template <class T>
  Cache<T> cache(const Task& task) const {
    return {kv_heads, dim, block_size, (const T*)keys, (const T*)values, tables + task.table};
  }
};

// One KV head of a task: all its spans, or one of several that are merged afterwards.
struct Piece {
  int64_t task, head, span, spans;  // `spans` from `span` on
  int64_t place;                    // of its sums, in rows; -1: it writes the result itself
};

struct Pieces {
  std::vector<Piece> list;
  bool shared;  // whether spans are to be merged
  std::vector<float> outputs;
  std::vector<Softmax> states;

  void plan(const Attention& a) {
    list.clear();
    int64_t rows = 0, places = 0;
    for (int64_t t = 0; t < a.num_tasks; ++t) rows += a.tasks[t].count;
    for (int64_t t = 0; t < a.num_tasks; ++t) {
      const Task& task = a.tasks[t];
      const int64_t first = first_key(task, a.window) / kSpan;
      const int64_t spans = (task.start + task.count - 1) / kSpan + 1 - first;
      const bool apart = spans > 1 && rows <= kFewRows;
      for (int64_t head = 0; head < a.kv_heads; ++head) {
        if (!apart) list.push_back({t, head, first, spans, -1});
        for (int64_t span = 0; apart && span < spans; ++span) {
          list.push_back({t, head, first + span, spans - span, places});
          places += task.count * a.fold();
        }
      }
    }
    shared = places > 0;
    if (states.size() < size_t(places)) states.resize(places), outputs.resize(places * a.dim);
  }
};

inline void load_queries(const Attention& a, const Task& task, int64_t head, Scratch& s) {
  const int64_t fold = a.fold(), rows = task.count * fold;
  const float scale = 1.0f / std::sqrt(float(a.dim));
  s.fit(rows, a.dim);
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = a.q + (task.first + row / fold) * a.stride + (head * fold + row % fold) * a.dim;
    for (int64_t d = 0; d < a.dim; ++d) s.q[row * a.dim + d] = from[d] * scale;
  }
}

inline void write_result(const Attention& a, const Task& task, int64_t head, const Scratch& s) {
  const int64_t fold = a.fold();
  for (int64_t row = 0; row < task.count * fold; ++row) {
    float* to = a.out + ((task.first + row / fold) * a.heads + head * fold + row % fold) * a.dim;
    const float share = 1.0f / s.all_states[row].sum;
    for (int64_t d = 0; d < a.dim; ++d) to[d] = s.all_outputs[row * a.dim + d] * share;
  }
}

template <class T>
inline void attend_piece(const Attention& a, const Piece& piece, Pieces& pieces, Scratch& s) {
  const Task& task = a.tasks[piece.task];
  const int64_t rows = task.count * a.fold();
  const Cache<T> cache = a.cache<T>(task);
  load_queries(a, task, piece.head, s);
  if (piece.place >= 0) {
    attend_span(task, cache, piece.head, a.fold(), a.window, piece.span, s);
    std::copy_n(s.outputs.data(), rows * a.dim, pieces.outputs.data() + piece.place * a.dim);
    std::copy_n(s.states.data(), rows, pieces.states.data() + piece.place);
    return;
  }
  for (int64_t span = piece.span; span < piece.span + piece.spans; ++span) {
    attend_span(task, cache, piece.head, a.fold(), a.window, span, s);
    merge(s.outputs.data(), s.states.data(), rows, a.dim, s.all_outputs.data(), s.all_states.data());
  }
  write_result(a, task, piece.head, s);
}

// Merges what was computed from the first of several spans on.
inline void merge_pieces(const Attention& a, const Piece* first, const Pieces& pieces, Scratch& s) {
  const Task& task = a.tasks[first->task];
  const int64_t rows = task.count * a.fold();
  s.fit(rows, a.dim);
  for (const Piece* piece = first; piece < first + first->spans; ++piece)
    merge(pieces.outputs.data() + piece->place * a.dim, pieces.states.data() + piece->place, rows,
          a.dim, s.all_outputs.data(), s.all_states.data());
  write_result(a, task, first->head, s);
}

// Called by all threads of a region, which share `pieces` and wait for each other at the end.
inline void attend(const Attention& a, Pieces& pieces) {
  static thread_local Scratch s;
#pragma omp single
  pieces.plan(a);
  const int64_t count = int64_t(pieces.list.size());
#pragma omp for schedule(dynamic, 1)
  for (int64_t i = 0; i < count; ++i)
    if (a.half) attend_piece<Half>(a, pieces.list[i], pieces, s);
    else attend_piece<float>(a, pieces.list[i], pieces, s);
  if (!pieces.shared) return;
#pragma omp for schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    const Piece& piece = pieces.list[i];
    const bool first = !i || pieces.list[i - 1].task != piece.task || pieces.list[i - 1].head != piece.head;
    if (piece.place >= 0 && first) merge_pieces(a, &piece, pieces, s);
  }
}

}  // namespace weir
