"""The Triton kernels of paged attention: one that attends, one that joins parts of the keys.

Online softmax over tiles of keys after Dao, "FlashAttention-2" (2023); the query heads of a KV
head share its tiles (grouped-query packing), and the keys of short pieces are cut into parts
that run side by side, after "Flash-Decoding" (Dao et al. 2023). How many parts a piece has
depends on its own length alone, never on its batch-mates: the same piece gives the same bits
in any company.
"""

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)
# A kernel is compiled anew for every combination of what is 1, what is a multiple of 16 and
# what is not. These change from step to step, and compiling takes seconds.
_CHANGING = ["window", "table_stride"]
_ANYWHERE = ["tile_ptr", "first_row_ptr", "length_ptr", "table_ptr"]


@triton.jit
def _key_tiles(length, context, first_query, queries, window, BLOCK_N: tl.constexpr):
    """The tiles [begin, end) of keys that the queries of a program see."""
    begin = tl.maximum(context + first_query - window + 1, 0) // BLOCK_N
    end = tl.cdiv(tl.minimum(length, context + first_query + queries), BLOCK_N)
    return begin, end


@triton.jit
def _tiles_per_part(tiles, PARTS: tl.constexpr, LEAST_TILES: tl.constexpr):
    return tl.maximum(tl.cdiv(tiles, PARTS), LEAST_TILES)


@triton.jit
def _product(left, right, WIDEN: tl.constexpr):
    """Matrix product in fp32. The interpreter multiplies no bfloat16: WIDEN converts it."""
    if WIDEN:
        left, right = left.to(tl.float32), right.to(tl.float32)
    return tl.dot(left, right, input_precision="ieee")


@triton.jit(do_not_specialize=_CHANGING, do_not_specialize_on_alignment=_ANYWHERE)
def attend_kernel(
    output_ptr,  # [rows, heads, head_dim]
    part_ptr,  # fp32 [programs, kv_heads, PARTS, BLOCK_M, head_dim]; unused if PARTS == 1
    peak_ptr,  # fp32 [programs, kv_heads, PARTS, BLOCK_M], likewise
    sum_ptr,  # the same
    q_ptr,  # [rows, heads, head_dim]
    k_ptr,  # [blocks, BLOCK_SIZE, kv_heads, head_dim]
    v_ptr,  # the same
    tile_ptr,  # int32 [programs, 2]: sequence, number of the tile of its queries
    first_row_ptr,  # int32 [sequences + 1], running sums of queries
    length_ptr,  # int32 [sequences], keys
    table_ptr,  # int32 [sequences, most blocks]
    scale,
    window,  # keys that a query sees, itself included
    q_row_stride,
    q_head_stride,
    output_row_stride,
    kv_block_stride,
    kv_token_stride,
    kv_head_stride,
    table_stride,
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    PARTS: tl.constexpr,
    LEAST_TILES: tl.constexpr,
    WIDEN: tl.constexpr,
):
    """Attend from one tile of queries over all its keys, or over one part of them."""
    program, kv_head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    sequence = tl.load(tile_ptr + 2 * program)
    QUERIES: tl.constexpr = BLOCK_M // GROUP
    first_query = tl.load(tile_ptr + 2 * program + 1) * QUERIES
    first_row = tl.load(first_row_ptr + sequence)
    count = tl.load(first_row_ptr + sequence + 1) - first_row
    length = tl.load(length_ptr + sequence)
    context = length - count
    begin, end = _key_tiles(length, context, first_query, QUERIES, window, BLOCK_N)
    if PARTS > 1:
        tiles = _tiles_per_part(end - begin, PARTS, LEAST_TILES)
        begin = begin + part * tiles
        end = tl.minimum(begin + tiles, end)
        if begin >= end:
            return

    folded = tl.arange(0, BLOCK_M)
    query = first_query + folded // GROUP
    head = kv_head * GROUP + folded % GROUP
    used = (folded < QUERIES * GROUP) & (query < count)
    position = context + query
    dim = tl.arange(0, PADDED_DIM)
    row = (first_row + query).to(tl.int64)
    q_at = row[:, None] * q_row_stride + head[:, None] * q_head_stride + dim[None, :]
    inside = used[:, None] & (dim < HEAD_DIM)[None, :]
    q = tl.load(q_ptr + q_at, mask=inside, other=0.0)

    peak = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    mixed = tl.zeros([BLOCK_M, PADDED_DIM], tl.float32)
    for tile in tl.range(begin, end):
        key = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        there = key < length
        block = tl.load(
            table_ptr + sequence * table_stride + key // BLOCK_SIZE, mask=there, other=0
        )
        place = block.to(tl.int64) * kv_block_stride + (key % BLOCK_SIZE) * kv_token_stride
        place += kv_head * kv_head_stride
        k_in = there[None, :] & (dim < HEAD_DIM)[:, None]
        k = tl.load(k_ptr + place[None, :] + dim[:, None], mask=k_in, other=0.0)
        scores = _product(q, k, WIDEN) * (scale * _LOG2_E)
        seen = (key[None, :] <= position[:, None]) & (key[None, :] > position[:, None] - window)
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, 1))
        # A row that has seen no key yet has no peak: -inf less -inf would be NaN.
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        weights = tl.exp2(scores - shift[:, None])
        shrink = tl.exp2(peak - shift)
        v_in = there[:, None] & (dim < HEAD_DIM)[None, :]
        v = tl.load(v_ptr + place[:, None] + dim[None, :], mask=v_in, other=0.0)
        total = total * shrink + tl.sum(weights, 1)
        mixed = mixed * shrink[:, None]
        mixed += _product(weights.to(v.dtype), v, WIDEN)
        peak = higher

    if PARTS > 1:
        slot = ((program * tl.num_programs(1) + kv_head) * PARTS + part).to(tl.int64) * BLOCK_M
        tl.store(peak_ptr + slot + folded, peak)
        tl.store(sum_ptr + slot + folded, total)
        part_at = (slot + folded)[:, None] * HEAD_DIM + dim[None, :]
        tl.store(part_ptr + part_at, mixed, mask=inside)
    else:
        mixed = mixed / tl.where(total == 0.0, 1.0, total)[:, None]
        out_at = row[:, None] * output_row_stride + head[:, None] * HEAD_DIM + dim[None, :]
        tl.store(output_ptr + out_at, mixed.to(output_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=_CHANGING[:1], do_not_specialize_on_alignment=_ANYWHERE[:3])
def join_kernel(
    output_ptr,  # as above
    part_ptr,
    peak_ptr,
    sum_ptr,
    tile_ptr,
    first_row_ptr,
    length_ptr,
    window,
    output_row_stride,
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PARTS: tl.constexpr,
    PADDED_PARTS: tl.constexpr,
    LEAST_TILES: tl.constexpr,
):
    """Weigh the parts of one query of one head and add them up."""
    program, kv_head, folded = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    sequence = tl.load(tile_ptr + 2 * program)
    QUERIES: tl.constexpr = BLOCK_M // GROUP
    first_query = tl.load(tile_ptr + 2 * program + 1) * QUERIES
    first_row = tl.load(first_row_ptr + sequence)
    count = tl.load(first_row_ptr + sequence + 1) - first_row
    query = first_query + folded // GROUP
    if query >= count:
        return
    length = tl.load(length_ptr + sequence)
    begin, end = _key_tiles(length, length - count, first_query, QUERIES, window, BLOCK_N)
    parts = tl.cdiv(end - begin, _tiles_per_part(end - begin, PARTS, LEAST_TILES))
    part = tl.arange(0, PADDED_PARTS)
    computed = part < parts
    slot = ((program * tl.num_programs(1) + kv_head) * PARTS + part).to(tl.int64)
    slot = slot * BLOCK_M + folded
    peaks = tl.load(peak_ptr + slot, mask=computed, other=float("-inf"))
    sums = tl.load(sum_ptr + slot, mask=computed, other=0.0)
    weights = tl.exp2(peaks - tl.max(peaks, 0))
    dim = tl.arange(0, PADDED_DIM)
    inside = computed[:, None] & (dim < HEAD_DIM)[None, :]
    mixed = tl.load(part_ptr + slot[:, None] * HEAD_DIM + dim[None, :], mask=inside, other=0.0)
    joined = tl.sum(mixed * weights[:, None], 0) / tl.sum(sums * weights, 0)
    head = kv_head * GROUP + folded % GROUP
    at = (first_row + query).to(tl.int64) * output_row_stride + head * HEAD_DIM + dim
    tl.store(output_ptr + at, joined.to(output_ptr.dtype.element_ty), mask=dim < HEAD_DIM)
