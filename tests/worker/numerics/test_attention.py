from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.numerics.paged import DIM, attend, paged_batch, paged_cache, queries
from weir_core.errors import InvalidField
from weir_worker.attention import make_attention
from weir_worker.attention.gather import GatherAttention
from weir_worker.attention.tiled import TiledAttention
from weir_worker.models.base import ForwardBatch, SequenceSlice

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
    cache, batch = (
        paged_cache(blocks, block_size, heads[1]),
        paged_batch(slices, block_size, blocks),
    )
    q = queries(batch, heads[0])
    expected = attend(GatherAttention(), batch, cache, q, window)
    tiled = attend(TiledAttention(heads[0], heads[1], DIM), batch, cache, q, window)
    assert torch.allclose(tiled, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("window", [1, 7, 64, 100])
@pytest.mark.parametrize("name", ["tiled", "gather_sdpa"])
def test_a_window_hides_what_lies_before_it(name: Any, window: int) -> None:
    cache, batch = paged_cache(20, 16, 2), paged_batch([(150, 1), (0, 130)], 16, 20)
    backend = make_attention(name, torch.device("cpu"), num_heads=4, num_kv_heads=2, head_dim=DIM)
    q, decoding = queries(batch, 4), batch.slices[0]
    before = attend(backend, batch, cache, q, window)[0]
    for position, changes in ((150 - window, False), (151 - window, True)):
        cache.values[0][decoding.block_table[position // 16], position % 16] += 100
        after = attend(backend, batch, cache, q, window)[0]
        assert torch.equal(after, before) != changes


@pytest.mark.parametrize("window", [None, 50, 100])
@pytest.mark.parametrize("heads", [(4, 2), (9, 3), (8, 1)])
def test_a_row_is_bitwise_the_same_alone_and_in_any_company(
    heads: tuple[int, int], window: int | None
) -> None:
    slices = [(0, 130), (127, 1), (128, 1), (190, 1), (60, 8), (63, 2), (3, 1), (70, 1)]
    cache, batch = paged_cache(200, 16, heads[1]), paged_batch(slices, 16, 200)
    q, backend, first = queries(batch, heads[0]), TiledAttention(heads[0], heads[1], DIM), 0
    together = attend(backend, batch, cache, q, window)
    for piece in batch.slices:
        for row in range(piece.length):
            alone = SequenceSlice(piece.start + row, 1, piece.block_table)
            index = first + row
            own = ForwardBatch([0], [alone], [])
            single = attend(backend, own, cache, q[index : index + 1], window)
            assert torch.equal(single[0], together[index]), (piece.start, row)
        first += piece.length


def test_what_lies_beyond_a_sequence_changes_no_bit() -> None:
    cache, batch = paged_cache(8, 16, 2), paged_batch([(36, 1), (0, 20)], 16, 8)
    q, backend = queries(batch, 4), TiledAttention(4, 2, DIM)
    before = attend(backend, batch, cache, q)
    for piece in batch.slices:
        end = piece.start + piece.length
        for tensor in (cache.keys[0], cache.values[0]):
            tensor[piece.block_table[end // 16], end % 16 :] = 1e6
    unused = set(range(8)) - {block for piece in batch.slices for block in piece.block_table}
    for block in unused:
        cache.values[0][block] = float("nan")
    assert torch.equal(attend(backend, batch, cache, q), before)


def test_many_long_sequences_are_gathered_in_bounded_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slices = [(182 + index, 1) for index in range(11)]
    cache, batch = paged_cache(200, 16, 2), paged_batch(slices, 16, 200)
    q, backend = queries(batch, 4), TiledAttention(4, 2, DIM)
    whole = attend(backend, batch, cache, q)
    monkeypatch.setattr("weir_worker.attention.tiled._MOST_GATHERED", 2 * 192 * 2 * DIM * 4)
    assert (
        len(backend.plan(batch, cache).tiles(None)) == 5 + 1
    )  # ten that see 192 keys, two at a time, and one that sees 256
    assert torch.equal(attend(backend, batch, cache, q), whole)


def test_writing_puts_rows_where_the_block_table_says() -> None:
    cache = paged_cache(6, 4, 2)
    batch = ForwardBatch([0] * 5, [SequenceSlice(3, 3, [5, 1]), SequenceSlice(4, 2, [0, 2])], [])
    plan = GatherAttention().plan(batch, cache)
    k, v = torch.randn(5, 2, DIM), torch.randn(5, 2, DIM)
    cache.write(0, k, v, plan.rows.slots)
    places = [(5, 3), (1, 0), (1, 1), (2, 0), (2, 1)]
    for row, (block, offset) in enumerate(places):
        assert torch.equal(cache.keys[0][block, offset], k[row])
        assert torch.equal(cache.values[0][block, offset], v[row])
    assert plan.rows.positions.tolist() == [3, 4, 5, 4, 5]


def test_a_cache_needs_blocks() -> None:
    with pytest.raises(InvalidField, match="num_blocks is 0; it must be at least 1"):
        paged_cache(0, 16, 2)
