"""The Triton kernels in Triton's interpreter, and what its compiler makes of them; no GPU."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.worker.numerics.paged import attend, paged_batch, paged_cache, queries
from weir_core.errors import WeirError
from weir_worker.attention import AttentionBackend, make_attention
from weir_worker.attention.gather import GatherAttention
from weir_worker.attention.rows import StepRows
from weir_worker.attention.tables import PagedTables
from weir_worker.attention.triton_paged import TritonAttention
from weir_worker.models.base import ForwardBatch

pytest.importorskip("triton")

_KERNELS = "weir_worker.attention.triton_kernel"
_CPU = torch.device("cpu")


def in_long_runs(*cases: tuple[object, ...]) -> list[Any]:
    """The interpreter takes a second for each: what others nearly show is left to `make soak`."""
    return [pytest.param(*case, marks=pytest.mark.soak) for case in cases]


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    """Triton decides when it is imported whether its functions are compiled or interpreted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        _forget_triton()
        yield
    _forget_triton()


def _forget_triton() -> None:
    for name in list(sys.modules):
        if name == _KERNELS or (name.split(".")[0] == "triton" and "._C" not in name):
            del sys.modules[name]


def triton_attention(
    heads: tuple[int, int], head_dim: int, dtype: torch.dtype = torch.float32
) -> AttentionBackend:
    return make_attention(
        "triton", _CPU, num_heads=heads[0], num_kv_heads=heads[1], head_dim=head_dim, dtype=dtype
    )


def worst_error(
    slices: list[tuple[int, int]],
    *,
    block_size: int = 16,
    heads: tuple[int, int] = (4, 2),
    head_dim: int = 16,
    dtype: torch.dtype = torch.float32,
    window: int | None = None,
) -> float:
    blocks = sum(-(-(start + length) // block_size) for start, length in slices)
    cache = paged_cache(blocks, block_size, heads[1], dtype, head_dim)
    batch = paged_batch(slices, block_size, blocks)
    q = queries(batch, heads[0], dtype, head_dim)
    expected = attend(GatherAttention(), batch, cache, q, window)
    got = attend(triton_attention(heads, head_dim, dtype), batch, cache, q, window)
    assert got.shape == expected.shape
    assert got.dtype == dtype
    return (got.float() - expected.float()).abs().max().item()


@pytest.mark.timeout(400)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    slices=st.lists(
        st.tuples(st.integers(0, 150), st.sampled_from([1, 1, 2, 9, 40])), min_size=1, max_size=3
    ),
    block_size=st.sampled_from([1, 16, 24, 64]),
    heads=st.sampled_from([(1, 1), (4, 2), (3, 1), (8, 1), (6, 6)]),
    window=st.none() | st.integers(1, 160),
)
def test_it_agrees_with_plain_attention(
    slices: list[tuple[int, int]], block_size: int, heads: tuple[int, int], window: int | None
) -> None:
    assert worst_error(slices, block_size=block_size, heads=heads, window=window) < 1e-5


@pytest.mark.parametrize("group", [1, 2, 3, 5, 8])
def test_every_group_of_query_heads(group: int) -> None:
    assert worst_error([(63, 1), (64, 1), (15, 2), (0, 17)], heads=(2 * group, 2)) < 1e-5


@pytest.mark.parametrize(
    ("keys", "window"),
    [
        *((256, None), (257, None), (4100, None), (1025, 512)),
        *in_long_runs((255, None), (1025, None), (255, 512), (256, 512), (257, 512), (4100, 512)),
    ],
)
def test_a_decode_whose_keys_are_cut_into_parts(keys: int, window: int | None) -> None:
    """Up to 4 tiles of 64 keys are one part; 4,096 keys are the first to have 16 of them."""
    assert worst_error([(keys - 1, 1), (3, 1)], block_size=64, heads=(2, 1), window=window) < 1e-5


@pytest.mark.parametrize(
    ("head_dim", "dtype"),
    [
        *((size, torch.float32) for size in (24, 64, 256)),
        *((size, torch.bfloat16) for size in (80, 128)),
        *in_long_runs(*((size, torch.float32) for size in (80, 128))),
        *in_long_runs(*((size, torch.bfloat16) for size in (24, 64, 256))),
    ],
)
def test_head_sizes_and_dtypes(head_dim: int, dtype: torch.dtype) -> None:
    bound = 1e-5 if dtype == torch.float32 else 2e-2
    slices = [(40, 1), (20, 40)]
    assert worst_error(slices, heads=(2, 1), head_dim=head_dim, dtype=dtype) < bound


def test_many_prompts_and_decodes_in_one_step() -> None:
    slices = [(5, 1), (0, 130), (64, 1), (60, 8), (31, 1), (7, 70)]
    assert worst_error(slices, heads=(4, 2)) < 1e-5


def test_a_piece_is_bitwise_the_same_alone_and_in_company() -> None:
    """Also beside a piece that has more keys by far, which a split by the batch would notice."""
    slices, heads = [(700, 1), (40, 1), (20, 40), (4, 3)], (4, 2)
    cache, batch = paged_cache(60, 16, heads[1]), paged_batch(slices, 16, 60)
    q, backend, first = queries(batch, heads[0]), triton_attention(heads, 16), 0
    together = attend(backend, batch, cache, q)
    for piece in batch.slices:
        own = ForwardBatch([0] * piece.length, [piece], [])
        rows = slice(first, first + piece.length)
        assert torch.equal(attend(backend, own, cache, q[rows]), together[rows])
        first += piece.length


def test_what_lies_beyond_a_sequence_changes_no_bit_even_nan() -> None:
    cache, batch = paged_cache(8, 16, 2), paged_batch([(36, 1), (0, 20)], 16, 8)
    q, backend = queries(batch, 4), triton_attention((4, 2), 16)
    before = attend(backend, batch, cache, q)
    for piece in batch.slices:
        end = piece.start + piece.length
        for tensor in (cache.keys[0], cache.values[0]):
            tensor[piece.block_table[end // 16], end % 16 :] = float("nan")
    unused = set(range(8)) - {block for piece in batch.slices for block in piece.block_table}
    for block in unused:
        cache.values[0][block] = float("nan")
    assert torch.equal(attend(backend, batch, cache, q), before)


def test_a_decode_plan_over_tensors_that_change_later() -> None:
    """What a CUDA graph replays: the same launch, other contents."""
    backend = triton_attention((4, 2), 16)
    assert isinstance(backend, TritonAttention)
    slices = [(36, 1), (300, 1), (0, 1)]
    cache, batch = paged_cache(32, 16, 2), paged_batch(slices, 16, 32)
    made = PagedTables.of(batch, 16, _CPU)
    table = torch.zeros(3, 40, dtype=torch.int32)
    lengths = torch.ones(3, dtype=torch.int32)
    static = PagedTables(made.first_rows, made.first_rows, lengths, table, 1, 640)
    plan = backend.decode_plan(StepRows.of(batch.slices, 16), static)
    table[:, : made.blocks.shape[1]] = made.blocks
    lengths.copy_(made.lengths)
    q = queries(batch, 4)
    expected = attend(backend, batch, cache, q)
    assert torch.equal(plan.attend(q, cache.keys[0], cache.values[0]), expected)


def test_without_the_interpreter_it_refuses_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(WeirError, match="'triton' cannot serve here: it runs on CUDA, not on cpu"):
        triton_attention((4, 2), 16)


def test_it_says_that_triton_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(WeirError, match="the package triton cannot be imported"):
        triton_attention((4, 2), 16)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("capability", [pytest.param(80, marks=pytest.mark.soak), 90])
def test_the_compiler_takes_the_kernels(capability: int, tmp_path: object) -> None:
    """Machine code for A100 and H100, within their shared memory; the compiler needs no GPU."""
    command = [sys.executable, "-m", "tests.worker.numerics.compile_kernels", str(capability)]
    env = {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    shared = [int(line) for line in done.stdout.split()]
    assert len(shared) == 3
    assert max(shared) <= 99 << 10, "more than GPUs of the middle class have"
