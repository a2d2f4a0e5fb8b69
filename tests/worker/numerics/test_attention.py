import random
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weir_core.errors import InvalidField, WeirError
from weir_worker.attention import AttentionBackend, PagedKvCache, make_attention
from weir_worker.attention.flash import FlashAttention
from weir_worker.attention.gather import GatherAttention
from weir_worker.attention.tiled import TiledAttention
from weir_worker.models.base import ForwardBatch, SequenceSlice

_DIM = 16


def _cache(
    blocks: int, block_size: int, kv_heads: int, dtype: torch.dtype = torch.float32
) -> PagedKvCache:
    cache = PagedKvCache(
        num_layers=1,
        num_blocks=blocks,
        block_size=block_size,
        num_kv_heads=kv_heads,
        head_dim=_DIM,
        dtype=dtype,
    )
    generator = torch.Generator().manual_seed(1)
    for tensor in (cache.keys[0], cache.values[0]):
        tensor.copy_(torch.randn(tensor.shape, generator=generator))
    return cache


def _batch(slices: list[tuple[int, int]], block_size: int, blocks: int) -> ForwardBatch:
    """Slices (start, length) over random disjoint blocks."""
    free = list(range(blocks))
    random.Random(2).shuffle(free)
    pieces = []
    for start, length in slices:
        count = -(-(start + length) // block_size)
        pieces.append(SequenceSlice(start, length, [free.pop() for _ in range(count)]))
    rows = sum(length for _, length in slices)
    return ForwardBatch([0] * rows, pieces, [])


def _attend(
    backend: AttentionBackend,
    batch: ForwardBatch,
    cache: PagedKvCache,
    q: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """The attention of the batch's rows, in the batch's order."""
    plan = backend.plan(batch, cache)
    computed = plan.attend(plan.rows.arrange(q), cache.keys[0], cache.values[0], window)
    return computed[plan.rows.locate(torch.arange(len(q)))].clone()


def _q(batch: ForwardBatch, heads: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(len(batch.token_ids), heads, _DIM, generator=generator).to(dtype)


_SLICES = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 150)), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(
    slices=_SLICES,
    block_size=st.sampled_from([1, 16, 24, 64, 128]),
    heads=st.sampled_from([(1, 1), (4, 2), (9, 3), (8, 1), (5, 5)]),
    window=st.none() | st.integers(1, 300),
)
def test_tiled_agrees_with_plain_attention(
    slices: list[tuple[int, int]], block_size: int, heads: tuple[int, int], window: int | None
) -> None:
    blocks = sum(-(-(start + length) // block_size) for start, length in slices)
    cache, batch = _cache(blocks, block_size, heads[1]), _batch(slices, block_size, blocks)
    q = _q(batch, heads[0])
    expected = _attend(GatherAttention(), batch, cache, q, window)
    tiled = _attend(TiledAttention(heads[0], heads[1], _DIM), batch, cache, q, window)
    assert torch.allclose(tiled, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("window", [1, 7, 64, 100])
@pytest.mark.parametrize("name", ["tiled", "gather_sdpa"])
def test_a_window_hides_what_lies_before_it(name: Any, window: int) -> None:
    cache, batch = _cache(20, 16, 2), _batch([(150, 1), (0, 130)], 16, 20)
    backend = make_attention(name, torch.device("cpu"), num_heads=4, num_kv_heads=2, head_dim=_DIM)
    q, decoding = _q(batch, 4), batch.slices[0]
    before = _attend(backend, batch, cache, q, window)[0]
    for position, changes in ((150 - window, False), (151 - window, True)):
        cache.values[0][decoding.block_table[position // 16], position % 16] += 100
        after = _attend(backend, batch, cache, q, window)[0]
        assert torch.equal(after, before) != changes


@pytest.mark.parametrize("window", [None, 50, 100])
@pytest.mark.parametrize("heads", [(4, 2), (9, 3), (8, 1)])
def test_a_row_is_bitwise_the_same_alone_and_in_any_company(
    heads: tuple[int, int], window: int | None
) -> None:
    slices = [(0, 130), (127, 1), (128, 1), (190, 1), (60, 8), (63, 2), (3, 1), (70, 1)]
    cache, batch = _cache(200, 16, heads[1]), _batch(slices, 16, 200)
    q, backend, first = _q(batch, heads[0]), TiledAttention(heads[0], heads[1], _DIM), 0
    together = _attend(backend, batch, cache, q, window)
    for piece in batch.slices:
        for row in range(piece.length):
            alone = SequenceSlice(piece.start + row, 1, piece.block_table)
            index = first + row
            own = ForwardBatch([0], [alone], [])
            single = _attend(backend, own, cache, q[index : index + 1], window)
            assert torch.equal(single[0], together[index]), (piece.start, row)
        first += piece.length


def test_what_lies_beyond_a_sequence_changes_no_bit() -> None:
    cache, batch = _cache(8, 16, 2), _batch([(36, 1), (0, 20)], 16, 8)
    q, backend = _q(batch, 4), TiledAttention(4, 2, _DIM)
    before = _attend(backend, batch, cache, q)
    for piece in batch.slices:
        end = piece.start + piece.length
        for tensor in (cache.keys[0], cache.values[0]):
            tensor[piece.block_table[end // 16], end % 16 :] = 1e6
    unused = set(range(8)) - {block for piece in batch.slices for block in piece.block_table}
    for block in unused:
        cache.values[0][block] = float("nan")
    assert torch.equal(_attend(backend, batch, cache, q), before)


def test_many_long_sequences_are_gathered_in_bounded_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slices = [(182 + index, 1) for index in range(11)]
    cache, batch = _cache(200, 16, 2), _batch(slices, 16, 200)
    q, backend = _q(batch, 4), TiledAttention(4, 2, _DIM)
    whole = _attend(backend, batch, cache, q)
    monkeypatch.setattr("weir_worker.attention.tiled._MOST_GATHERED", 2 * 192 * 2 * _DIM * 4)
    assert (
        len(backend.plan(batch, cache).tiles(None)) == 5 + 1
    )  # ten that see 192 keys, two at a time, and one that sees 256
    assert torch.equal(_attend(backend, batch, cache, q), whole)


def test_writing_puts_rows_where_the_block_table_says() -> None:
    cache = _cache(6, 4, 2)
    batch = ForwardBatch([0] * 5, [SequenceSlice(3, 3, [5, 1]), SequenceSlice(4, 2, [0, 2])], [])
    plan = GatherAttention().plan(batch, cache)
    k, v = torch.randn(5, 2, _DIM), torch.randn(5, 2, _DIM)
    cache.write(0, k, v, plan.rows.slots)
    places = [(5, 3), (1, 0), (1, 1), (2, 0), (2, 1)]
    for row, (block, offset) in enumerate(places):
        assert torch.equal(cache.keys[0][block, offset], k[row])
        assert torch.equal(cache.values[0][block, offset], v[row])
    assert plan.rows.positions.tolist() == [3, 4, 5, 4, 5]


def _varlen_stand_in(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool,
    window_size: tuple[int, int],
    block_table: torch.Tensor,
) -> torch.Tensor:
    """What flash_attn documents: paged keys, causal mask aligned to the bottom right, and a
    window of (keys to the left, keys to the right) of each query, -1 for all."""
    assert causal
    assert {t.dtype for t in (cu_seqlens_q, cu_seqlens_k, block_table)} == {torch.int32}
    outputs = []
    for index, table in enumerate(block_table):
        rows = q[cu_seqlens_q[index] : cu_seqlens_q[index + 1]].float()
        length = int(cu_seqlens_k[index + 1] - cu_seqlens_k[index])
        assert len(rows) <= max_seqlen_q
        assert length <= max_seqlen_k
        keys, values = (t[table].flatten(0, 1)[:length].float() for t in (k, v))
        group = q.shape[1] // k.shape[2]
        keys, values = (t.repeat_interleave(group, 1) for t in (keys, values))
        scores = torch.einsum("qhd,khd->hqk", rows, keys) / q.shape[2] ** 0.5
        own = torch.arange(length - len(rows), length)[:, None]
        hidden = torch.arange(length) > own
        if window_size[0] >= 0:
            hidden |= torch.arange(length) < own - window_size[0]
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        outputs.append(torch.einsum("hqk,khd->qhd", weights, values))
    return torch.cat(outputs).to(q.dtype)


@pytest.fixture
def flash(monkeypatch: pytest.MonkeyPatch) -> FlashAttention:
    module = ModuleType("flash_attn")
    module.flash_attn_varlen_func = _varlen_stand_in  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flash_attn", module)
    return FlashAttention()


@pytest.mark.parametrize("window", [None, 1, 100])
def test_flash_hands_its_kernel_the_right_tables(flash: FlashAttention, window: int | None) -> None:
    cache = _cache(8, 256, 2, torch.bfloat16)
    batch = _batch([(0, 300), (255, 1), (256, 1), (10, 5)], 256, 8)
    q = _q(batch, 4, torch.bfloat16)
    expected = _attend(GatherAttention(), batch, cache, q, window)
    assert torch.allclose(_attend(flash, batch, cache, q, window), expected, atol=2e-2)


def test_flash_refuses_blocks_and_dtypes_that_are_not_its_own(flash: FlashAttention) -> None:
    batch = _batch([(0, 3)], 16, 8)
    with pytest.raises(InvalidField, match="block_size is 16; it must be a multiple of 256"):
        flash.plan(batch, _cache(8, 16, 2, torch.bfloat16))
    with pytest.raises(InvalidField, match=r"dtype is torch\.float32"):
        flash.plan(batch, _cache(8, 256, 2))


def test_flash_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flash_attn", None)
    with pytest.raises(WeirError, match="install the extra 'gpu'"):
        make_attention("flash", torch.device("cpu"), num_heads=4, num_kv_heads=2, head_dim=_DIM)


def test_a_cache_needs_blocks() -> None:
    with pytest.raises(InvalidField, match="num_blocks is 0; it must be at least 1"):
        _cache(0, 16, 2)
