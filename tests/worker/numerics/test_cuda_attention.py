"""The back ends of other people's CUDA kernels, over stand-ins for what those document."""

import sys
from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from tests.worker.numerics.paged import DIM, attend, paged_batch, paged_cache, queries
from weir_core.errors import WeirError
from weir_worker.attention import factory, make_attention, varlen
from weir_worker.attention.flash import FlashAttention
from weir_worker.attention.gather import GatherAttention
from weir_worker.attention.site import AttentionSite
from weir_worker.attention.varlen import VarlenAttention

_CUDA = torch.device("cuda")
_SLICES = [(0, 300), (255, 1), (256, 1), (10, 5)]


def site(block_size: int = 256, dtype: torch.dtype = torch.bfloat16) -> AttentionSite:
    return AttentionSite(
        device=_CUDA,
        dtype=dtype,
        num_heads=4,
        num_kv_heads=2,
        head_dim=DIM,
        block_size=block_size,
    )


def plain_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, length: int, left: int
) -> torch.Tensor:
    """One sequence: causal mask aligned to the last key, `left` keys before each query, -1 all."""
    keys, values = (t[table].flatten(0, 1)[:length].float() for t in (k, v))
    group = q.shape[1] // k.shape[2]
    keys, values = (t.repeat_interleave(group, 1) for t in (keys, values))
    scores = torch.einsum("qhd,khd->hqk", q.float(), keys) / q.shape[2] ** 0.5
    own = torch.arange(length - len(q), length)[:, None]
    hidden = torch.arange(length) > own
    if left >= 0:
        hidden |= torch.arange(length) < own - left
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, values).to(q.dtype)


def flash_stand_in(
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
    """What flash_attn documents."""
    assert causal
    assert {t.dtype for t in (cu_seqlens_q, cu_seqlens_k, block_table)} == {torch.int32}
    assert max_seqlen_q == int(cu_seqlens_q.diff().max())
    assert max_seqlen_k == int(cu_seqlens_k.diff().max())
    pieces = torch.split(q, cu_seqlens_q.diff().tolist())
    lengths = cu_seqlens_k.diff().tolist()
    return torch.cat(
        [
            plain_attention(piece, k, v, table, length, window_size[0])
            for piece, table, length in zip(pieces, block_table, lengths, strict=True)
        ]
    )


def varlen_stand_in(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seq_q: torch.Tensor,
    cu_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: object = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    num_splits: int | None = None,
) -> torch.Tensor:
    """What torch 2.13 documents."""
    assert seqused_k is not None
    assert block_table is not None
    assert (window_size[1], enable_gqa, num_splits, cu_seq_k) == (0, True, 1, None)
    assert {t.dtype for t in (cu_seq_q, seqused_k, block_table)} == {torch.int32}
    assert (max_q, max_k) == (int(cu_seq_q.diff().max()), int(seqused_k.max()))
    pieces = torch.split(query, cu_seq_q.diff().tolist())
    return torch.cat(
        [
            plain_attention(piece, key, value, table, length, window_size[0])
            for piece, table, length in zip(pieces, block_table, seqused_k.tolist(), strict=True)
        ]
    )


@pytest.fixture
def flash(monkeypatch: pytest.MonkeyPatch) -> FlashAttention:
    module = ModuleType("flash_attn")
    module.flash_attn_varlen_func = flash_stand_in  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flash_attn", module)
    return FlashAttention()


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A torch on a Hopper GPU whose FlashAttention 3 can be switched on; what was."""
    switched: list[str] = []
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.nn.attention, "activate_flash_attention_impl", switched.append)
    return switched


def stand_in_for_varlen(monkeypatch: pytest.MonkeyPatch, function: Callable[..., object]) -> None:
    module = ModuleType("varlen")
    module.varlen_attn = function  # type: ignore[attr-defined]
    monkeypatch.setattr(varlen, "import_module", lambda _: module)


@pytest.mark.parametrize("window", [None, 1, 100])
def test_flash_hands_its_kernel_the_right_tables(flash: FlashAttention, window: int | None) -> None:
    cache, batch = paged_cache(8, 256, 2, torch.bfloat16), paged_batch(_SLICES, 256, 8)
    q = queries(batch, 4, torch.bfloat16)
    expected = attend(GatherAttention(), batch, cache, q, window)
    assert torch.allclose(attend(flash, batch, cache, q, window), expected, atol=2e-2)


@pytest.mark.parametrize("window", [None, 1, 100])
def test_varlen_hands_its_function_the_right_tables(
    monkeypatch: pytest.MonkeyPatch, window: int | None
) -> None:
    stand_in_for_varlen(monkeypatch, varlen_stand_in)
    cache, batch = paged_cache(60, 16, 2, torch.bfloat16), paged_batch(_SLICES, 16, 60)
    q = queries(batch, 4, torch.bfloat16)
    expected = attend(GatherAttention(), batch, cache, q, window)
    assert torch.allclose(attend(VarlenAttention(), batch, cache, q, window), expected, atol=2e-2)


def test_flash_refuses_blocks_dtypes_and_devices_that_are_not_its_own(
    flash: FlashAttention,
) -> None:
    assert flash.refusal(site()) is None
    assert "block_size is 16; it must be a multiple of 256" in str(flash.refusal(site(16)))
    assert "dtype is float32" in str(flash.refusal(site(256, torch.float32)))


def test_flash_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flash_attn", None)
    with pytest.raises(WeirError, match="install the extra 'flash'"):
        make_attention("flash", torch.device("cpu"), num_heads=4, num_kv_heads=2, head_dim=DIM)


def test_varlen_switches_on_the_kernels_of_the_gpu(hopper: list[str]) -> None:
    assert VarlenAttention.refusal(site()) is None
    assert hopper == ["FA3"]


def test_varlen_says_why_it_cannot_serve(
    monkeypatch: pytest.MonkeyPatch, hopper: list[str]
) -> None:
    assert "dtype is float32" in str(VarlenAttention.refusal(site(dtype=torch.float32)))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    assert "compute capability 8.0" in str(VarlenAttention.refusal(site()))

    def older(query: object, *, scale: float, window_size: object) -> None:
        """As in torch 2.11."""

    stand_in_for_varlen(monkeypatch, older)
    reason = str(VarlenAttention.refusal(site()))
    assert "has no block_table, enable_gqa, num_splits, seqused_k" in reason


def test_varlen_tells_what_the_missing_package_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    reason = str(VarlenAttention.refusal(site()))
    assert "FA3 cannot be switched on in torch (" in reason
    assert "flash_attn_interface" in reason


def test_on_cuda_auto_takes_the_first_that_can_serve(
    flash: FlashAttention, hopper: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(of: AttentionSite) -> str:
        return factory._first_on_cuda(of)

    assert chosen(site()) == "flash"
    assert chosen(site(16)) == "varlen"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    assert chosen(site(16)) == "triton"
    assert chosen(site(16, torch.float32)) == "triton"
    monkeypatch.setitem(sys.modules, "triton", None)
    assert chosen(site(16)) == "gather_sdpa"


def test_tiled_serves_fp32_on_cpu_alone() -> None:
    with pytest.raises(WeirError, match=r"'tiled' cannot serve here: it runs in float32 on CPU"):
        make_attention("tiled", _CUDA, num_heads=4, num_kv_heads=2, head_dim=DIM)
