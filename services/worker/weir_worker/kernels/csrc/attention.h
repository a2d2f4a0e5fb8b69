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

// outputs[r] += weights[r] . values over `count` keys, for `W` vectors of columns; those at `next`
// are fetched meanwhile.
template <int R, int W, class T>
void add_values(const float* weights, const T* const* values, const T* const* next, int count,
                int64_t dim, float* outputs) {
  constexpr int kLine = 64 / sizeof(T);
  Floats sums[R][W];
  for (int r = 0; r < R; ++r)
    for (int w = 0; w < W; ++w) sums[r][w] = load(outputs + r * dim + w * kLanes);
  for (int j = 0; j < count; ++j) {
#pragma GCC unroll 8
    for (int i = 0; i < W * kLanes; i += kLine) _mm_prefetch((const char*)(next[j] + i), _MM_HINT_T0);
#pragma GCC unroll 8
    for (int w = 0; w < W; ++w) {
      const Floats v = load(values[j] + w * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sums[r][w] = sums[r][w] + v * weights[r * kTile + j];
    }
  }
  for (int r = 0; r < R; ++r)
    for (int w = 0; w < W; ++w) store(outputs + r * dim + w * kLanes, sums[r][w]);
}

// Columns in strips whose sums fit in registers.
template <int R, class T>
void add_all_values(const float* weights, const T* const* values, const T* const* next, int count,
                    int64_t dim, float* outputs) {
  constexpr int W = kLanes == 16 ? 4 : 2;
  const T *strip[kTile], *next_strip[kTile];
  const auto cut = [&](int64_t column) {
    for (int j = 0; j < count; ++j) strip[j] = values[j] + column, next_strip[j] = next[j] + column;
  };
  int64_t column = 0;
  for (; column + W * kLanes <= dim; column += W * kLanes) {
    cut(column);
    add_values<R, W, T>(weights, strip, next_strip, count, dim, outputs + column);
  }
  for (; column < dim; column += kLanes) {
    cut(column);
    add_values<R, 1, T>(weights, strip, next_strip, count, dim, outputs + column);
  }
}

struct Softmax {
  float peak = -std::numeric_limits<float>::infinity(), sum = 0;
};

// Whether a score of a whole tile is above `peak`; NaN is not.
inline bool exceeds(const float* scores, float peak) {
  Ints above = {};
  for (int j = 0; j < kTile; j += kLanes) above |= load(scores + j) > peak;
  return any(above);
}

// The largest of `peak` and the scores from `from` to `to`; NaN among them is passed over.
inline float largest(const float* scores, int from, int to, float peak) {
  Floats most = spread(peak);
  int j = from;
  for (; j + kLanes <= to; j += kLanes) {
    const Floats some = load(scores + j);
    most = some > most ? some : most;
  }
  peak = largest_lane(most);
  for (; j < to; ++j) peak = scores[j] > peak ? scores[j] : peak;
  return peak;
}

// Turns the scores of keys `from` to `to` into weights, which are added to `sums` (in kSums
// lanes), the others into 0; returns what earlier sums shrink by: mostly 1, since the largest
// score is rarely in the latest tile.
inline float soften(float* scores, int from, int to, float& peak, float* sums) {
  if (from >= to) {
    std::memset(scores, 0, kTile * sizeof(float));
    return 1.0f;
  }
  const bool whole = from == 0 && to == kTile;
  Floats lanes[kSums / kLanes];
  for (int p = 0; p < kSums / kLanes; ++p) lanes[p] = load(sums + p * kLanes);
  float shrink = 1.0f;
  if (!whole || exceeds(scores, peak)) {
    const float before = peak;
    peak = largest(scores, from, to, before);
    shrink = exp(spread(before - peak))[0];
    for (Floats& lane : lanes) lane = lane * shrink;
  }
  for (int j = 0; j < kTile; j += kLanes) store(scores + j, exp(load(scores + j) - peak));
  if (!whole) {
    for (int j = 0; j < from; ++j) scores[j] = 0;
    for (int j = to; j < kTile; ++j) scores[j] = 0;
  }
  for (int j = 0; j < kTile; j += kSums)
    for (int p = 0; p < kSums / kLanes; ++p) lanes[p] = lanes[p] + load(scores + j + p * kLanes);
  for (int p = 0; p < kSums / kLanes; ++p) store(sums + p * kLanes, lanes[p]);
  return shrink;
}

struct Scratch {
  std::vector<float> q, scores, outputs, all_outputs;
  std::vector<float> keys, values;  // of one tile, in 32 bits: [dim, kTile], [kTile, dim]
  std::vector<float> peaks, sums;  // of one span: the largest scores, the sums in kSums lanes
  std::vector<Softmax> all_states;

  void fit(int64_t rows, int64_t dim) {
    if (q.size() < size_t(rows * dim))
      q.resize(rows * dim), outputs.resize(rows * dim), all_outputs.resize(rows * dim);
    if (scores.size() < size_t(rows * kTile)) scores.resize(rows * kTile);
    all_states.assign(rows, Softmax{});
  }
  void clear(int64_t rows, int64_t dim) {
    std::fill_n(outputs.begin(), rows * dim, 0.0f);
    peaks.assign(rows, Softmax{}.peak);
    sums.assign(rows * kSums, 0.0f);
  }
  Softmax state(int64_t row) const { return {peaks[row], tree_sum(sums.data() + row * kSums)}; }
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

template <class T>
inline void weigh_rows(const T* const* values, const T* const* next, int count, int64_t dim,
                       int64_t rows, Scratch& s) {
  for (int64_t row = 0; row < rows; row += kRows) {
    const float* weights = s.scores.data() + row * kTile;
    float* outputs = s.outputs.data() + row * dim;
#define WEIR_WEIGH(R) add_all_values<R, T>(weights, values, row ? values : next, count, dim, outputs)
    WEIR_BY_ROWS(rows - row, WEIR_WEIGH)
  }
}

// `end`: of the keys; the tile after this one is fetched as far as there is one.
template <class T>
inline void weigh_tile(const Cache<T>& c, int64_t head, int64_t tile, int count, int64_t end,
                       int64_t rows, Scratch& s) {
  const T *values[kTile], *next[kTile];
  for (int group = 0; group < count; group += kGroup) {
    const int64_t key = tile + group;
    const T* first = c.value(key, head);
    const T* later = key + kTile < end ? c.value(key + kTile, head) : first;
    for (int j = 0; j < kGroup; ++j)
      values[group + j] = first + j * c.dim, next[group + j] = later + j * c.dim;
  }
  weigh_rows(values, next, count, c.dim, rows, s);
}

// The same for many rows: the values are brought to 32 bits once for all of them.
inline void weigh_widened(const Cache<Half>& c, int64_t head, int64_t tile, int count, int64_t end,
                          int64_t rows, Scratch& s) {
  s.values.resize(kTile * c.dim);
  const float* values[kTile];
  for (int group = 0; group < count; group += kGroup) {
    const int64_t key = tile + group;
    const Half* from = c.value(key, head);
    const Half* next = key + kTile < end ? c.value(key + kTile, head) : from;
    float* to = s.values.data() + group * c.dim;
    for (int64_t i = 0; i < kGroup * c.dim; i += kLanes) {
      _mm_prefetch((const char*)(next + i), _MM_HINT_T0);
      store(to + i, load(from + i));
    }
    for (int j = 0; j < kGroup; ++j) values[group + j] = to + j * c.dim;
  }
  weigh_rows(values, values, count, c.dim, rows, s);
}

inline bool widens(const Cache<float>&, int64_t) { return false; }
inline bool widens(const Cache<Half>&, int64_t rows) { return rows > 12 * kRows; }
inline void score_widened(const Cache<float>&, int64_t, int64_t, int, int64_t, int64_t, Scratch&) {}
inline void weigh_widened(const Cache<float>&, int64_t, int64_t, int, int64_t, int64_t, Scratch&) {}

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
                                int(std::clamp<int64_t>(to, 0, kTile)), s.peaks[row],
                                s.sums.data() + row * kSums);
    if (shrink == 1.0f) continue;
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
    soften_tile(task, fold, window, tile, c.dim, s);
    if (widened) weigh_widened(c, head, tile, count, all, rows, s);
    else weigh_tile(c, head, tile, count, all, rows, s);
  }
}

// Adds sums over further keys to those of a row, which stay as they are if it saw none of them.
inline void merge(const float* outputs, Softmax more, int64_t dim, float* all_outputs,
                  Softmax& all) {
  if (more.sum == 0) return;
  if (all.sum == 0) {
    all = more;
    std::memcpy(all_outputs, outputs, dim * sizeof(float));
    return;
  }
  const float peak = more.peak > all.peak ? more.peak : all.peak;
  const float old = exp(spread(all.peak - peak))[0], fresh = exp(spread(more.peak - peak))[0];
  all.sum = all.sum * old + more.sum * fresh;
  all.peak = peak;
  for (int64_t d = 0; d < dim; d += kLanes)
    store(all_outputs + d, load(all_outputs + d) * old + load(outputs + d) * fresh);
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
    for (int64_t row = 0; row < rows; ++row) pieces.states[piece.place + row] = s.state(row);
    return;
  }
  for (int64_t span = piece.span; span < piece.span + piece.spans; ++span) {
    attend_span(task, cache, piece.head, a.fold(), a.window, span, s);
    for (int64_t row = 0; row < rows; ++row)
      merge(s.outputs.data() + row * a.dim, s.state(row), a.dim, s.all_outputs.data() + row * a.dim,
            s.all_states[row]);
  }
  write_result(a, task, piece.head, s);
}

// Merges what was computed from the first of several spans on.
inline void merge_pieces(const Attention& a, const Piece* first, const Pieces& pieces, Scratch& s) {
  const Task& task = a.tasks[first->task];
  const int64_t rows = task.count * a.fold();
  s.fit(rows, a.dim);
  for (const Piece* piece = first; piece < first + first->spans; ++piece)
    for (int64_t row = 0; row < rows; ++row)
      merge(pieces.outputs.data() + (piece->place + row) * a.dim, pieces.states[piece->place + row],
            a.dim, s.all_outputs.data() + row * a.dim, s.all_states[row]);
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
