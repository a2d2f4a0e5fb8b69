from collections.abc import Sequence
from typing import Any

import pytest
import torch

from weir_core.errors import InvalidField
from weir_worker.attention import PagedKvCache
from weir_worker.attention.base import AttentionBackend
from weir_worker.attention.gather import GatherAttention
from weir_worker.attention.native import NativeAttention, NativeKvCache
from weir_worker.kernels.library import Kernels
from weir_worker.models.base import ForwardBatch, SequenceSlice

_SLICES = [(0, 130), (127, 1), (128, 1), (190, 1), (60, 8), (63, 2), (3, 1), (300, 70), (0, 1)]


def _batch(slices: Sequence[tuple[int, int]], block_size: int, blocks: int) -> ForwardBatch:
    order = torch.randperm(blocks, generator=torch.Generator().manual_seed(0)).tolist()
    pieces = []
    for start, length in slices:
        count = -(-(start + length) // block_size)
        pieces.append(SequenceSlice(start, length, order[:count]))
        del order[:count]
    return ForwardBatch([0] * sum(length for _, length in slices), pieces, [])


class _Filled:
    """The same keys and values in a plain and in a native cache."""

    def __init__(
        self,
        kernels: Kernels,
        blocks: int,
        block_size: int,
        kv_heads: int,
        dim: int,
        dtype: torch.dtype = torch.float32,
    ):
        generator = torch.Generator().manual_seed(1)
        keys, values = torch.randn(2, blocks * block_size, kv_heads, dim, generator=generator)
        keys, values = keys.to(dtype).float(), values.to(dtype).float()
        size: dict[str, Any] = {"num_layers": 1, "num_blocks": blocks, "block_size": block_size}
        self.plain = PagedKvCache(**size, num_kv_heads=kv_heads, head_dim=dim)
        heads: dict[str, Any] = {"num_kv_heads": kv_heads, "head_dim": dim}
        self.native = NativeKvCache(kernels, **size, **heads, dtype=dtype)
        for cache in (self.plain, self.native):
            cache.write(0, keys, values, torch.arange(blocks * block_size))


def _attend(
    backend: AttentionBackend,
    batch: ForwardBatch,
    cache: PagedKvCache,
    q: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    return backend.plan(batch, cache).attend(q, cache.keys[0], cache.values[0], window)


def _queries(batch: ForwardBatch, heads: int, dim: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return 2 * torch.randn(len(batch.token_ids), heads, dim, generator=generator)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("window", [None, 1, 50, 100])
@pytest.mark.parametrize("block_size", [16, 64, 256])
@pytest.mark.parametrize(
    ("heads", "dim"), [((4, 2), 16), ((9, 3), 64), ((8, 1), 80), ((5, 5), 128)]
)
def test_agrees_with_plain_attention_and_rows_are_independent(
    kernels: Kernels,
    heads: tuple[int, int],
    dim: int,
    block_size: int,
    window: int | None,
    dtype: torch.dtype,
) -> None:
    blocks = sum(-(-(start + length) // block_size) for start, length in _SLICES)
    filled = _Filled(kernels, blocks, block_size, heads[1], dim, dtype)
    batch, backend, first = _batch(_SLICES, block_size, blocks), NativeAttention(kernels), 0
    q = _queries(batch, heads[0], dim)
    together = _attend(backend, batch, filled.native, q, window)
    expected = _attend(GatherAttention(), batch, filled.plain, q, window)
    assert torch.allclose(together, expected, atol=2e-5, rtol=1e-5)
    for piece in batch.slices:
        for row in {0, 1, piece.length // 2, piece.length - 1} & set(range(piece.length)):
            own = ForwardBatch([0], [SequenceSlice(piece.start + row, 1, piece.block_table)], [])
            single = _attend(backend, own, filled.native, q[first + row][None], window)
            assert torch.equal(single[0], together[first + row]), (piece.start, row)
        first += piece.length


def test_numbers_beyond_those_of_16_bits_are_kept_as_the_largest(kernels: Kernels) -> None:
    cache = NativeKvCache(
        kernels,
        num_layers=1,
        num_blocks=1,
        block_size=16,
        num_kv_heads=1,
        head_dim=16,
        dtype=torch.float16,
    )
    numbers = [1e6, -1e6, 65519.0, 1 / 3, 6e-8, -0.0, float("inf"), float("nan")] * 2
    row = torch.tensor(numbers).view(1, 1, 16)
    cache.write(0, row, row, torch.tensor([3]))
    expected = row.clamp(-65504, 65504).half()[0, 0]
    for stored in (cache.keys[0][0, 0, :, 3], cache.values[0][0, 0, 3]):
        assert torch.equal(stored.nan_to_num(7.0), expected.nan_to_num(7.0))


def test_what_lies_beyond_a_sequence_changes_no_bit(kernels: Kernels) -> None:
    filled, batch = _Filled(kernels, 8, 16, 2, 16), _batch([(36, 1), (0, 20)], 16, 8)
    q, backend, cache = _queries(batch, 4, 16), NativeAttention(kernels), filled.native
    before = _attend(backend, batch, cache, q)
    for piece in batch.slices:
        end = piece.start + piece.length
        cache.keys[0][piece.block_table[end // 16], :, :, end % 16 :] = 1e6
        cache.values[0][piece.block_table[end // 16], :, end % 16 :] = 1e6
    unused = set(range(8)) - {block for piece in batch.slices for block in piece.block_table}
    for block in unused:
        cache.keys[0][block] = cache.values[0][block] = float("nan")
    assert torch.equal(_attend(backend, batch, cache, q), before)


def test_queries_keys_and_values_may_be_parts_of_wider_rows(kernels: Kernels) -> None:
    qkv = torch.randn(20, 8, 16, generator=torch.Generator().manual_seed(3))
    q, k, v = qkv[:, :4], qkv[:, 4:6], qkv[:, 6:]
    outputs = []
    for parts in ((q, k, v), (q.contiguous(), k.contiguous(), v.contiguous())):
        cache, batch = _Filled(kernels, 2, 16, 2, 16).native, _batch([(0, 20)], 16, 2)
        plan = NativeAttention(kernels).plan(batch, cache)
        cache.write(0, parts[1], parts[2], plan.rows.slots)
        outputs.append(plan.attend(parts[0], cache.keys[0], cache.values[0]))
    assert torch.equal(*outputs)
    cache.clear([0, 1])
    assert not cache.keys[0].any()
    assert not cache.values[0].any()


def test_a_query_that_is_not_a_number_stays_alone(kernels: Kernels) -> None:
    filled, batch = _Filled(kernels, 8, 16, 2, 16), _batch([(36, 1), (0, 20)], 16, 8)
    q, backend = _queries(batch, 4, 16), NativeAttention(kernels)
    before = _attend(backend, batch, filled.native, q)
    q[5, 0] = float("nan")
    after = _attend(backend, batch, filled.native, q)
    assert after[5].isnan().any()
    kept = [row for row in range(21) if row != 5]
    assert torch.equal(after[kept], before[kept])


def test_what_does_not_fit_is_refused(kernels: Kernels) -> None:
    with pytest.raises(InvalidField, match="block_size is 24; it must be a multiple of 16"):
        _Filled(kernels, 2, 24, 2, 16)
    with pytest.raises(InvalidField, match="head_dim is 24; it must be a multiple of 16"):
        _Filled(kernels, 2, 16, 2, 24)
    cache, backend = _Filled(kernels, 4, 16, 2, 16).native, NativeAttention(kernels)
    for table, message in (([0], "1 blocks"), ([0, 4], "is 4"), ([-1, 0], "is -1")):
        batch = ForwardBatch([0], [SequenceSlice(16, 1, table)], [])
        with pytest.raises((InvalidField, IndexError), match=f"{message}|out of bounds|range"):
            backend.plan(batch, cache)
    batch = _batch([(0, 4)], 16, 4)
    for q in (torch.zeros(4, 3, 16), torch.zeros(3, 4, 16), torch.zeros(4, 4, 32)):
        with pytest.raises(InvalidField, match="q is"):
            _attend(backend, batch, cache, q)
    fewer = _Filled(kernels, 3, 16, 2, 16).native
    with pytest.raises(InvalidField, match=r"keys is .* it must be 4 contiguous blocks"):
        backend.plan(batch, cache).attend(torch.zeros(4, 4, 16), fewer.keys[0], fewer.values[0])
    k = torch.zeros(3, 2, 16)
    with pytest.raises(InvalidField, match="keys, values is"):
        cache.write(0, k, k, torch.zeros(4, dtype=torch.int64))


@pytest.mark.parametrize("window", [None, 1030])
def test_spans_of_a_long_context_are_merged_alike_by_whoever_computes_them(
    kernels: Kernels, window: int | None
) -> None:
    slices = [(2100, 3), (1023, 1), (1024, 1), (1000, 60), (3, 1)]
    batch = _batch(slices, 16, 336)
    filled = _Filled(kernels, 336, 16, 2, 16)
    q = _queries(batch, 4, 16)
    backend = NativeAttention(kernels)
    together = _attend(backend, batch, filled.native, q, window)
    expected = _attend(GatherAttention(), batch, filled.plain, q, window)
    torch.testing.assert_close(together, expected, atol=2e-6, rtol=2e-5)
    torch.set_num_threads(1)
    assert torch.equal(_attend(backend, batch, filled.native, q, window), together)
    # Beside enough rows that no thread takes a span by itself.
    pieces = [*batch.slices, SequenceSlice(0, 200, list(range(13)))]
    crowd = ForwardBatch([0] * (len(q) + 200), pieces, [])
    more = _attend(backend, crowd, filled.native, torch.cat([q, q.new_ones(200, 4, 16)]), window)
    assert torch.equal(more[: len(q)], together)
    first = 0
    for piece in batch.slices:
        for row in range(piece.length):
            own = SequenceSlice(piece.start + row, 1, piece.block_table)
            single = _attend(
                backend, ForwardBatch([0], [own], []), filled.native, q[first + row][None], window
            )
            assert torch.equal(single[0], together[first + row])
        first += piece.length
