"""Attention by the FlashAttention 2 kernel over the paged cache, on CUDA.

Source: Dao, "FlashAttention-2", 2023, and the `flash_attn` package, whose
`flash_attn_varlen_func` takes a block table. Not yet run on a GPU: the tests hold the plan
against the oracle with a stand-in of the kernel's documented behaviour.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate

import torch

from weir_core.errors import InvalidField, Reason, WeirError
from weir_worker.attention.cache import PagedKvCache
from weir_worker.attention.rows import StepRows
from weir_worker.models.base import ForwardBatch

_PAGE_MULTIPLE = 256
_DTYPES = (torch.float16, torch.bfloat16)


class FlashAttention:
    """One call for all sequences of a step, prefills and decodes alike."""

    name = "flash"

    def __init__(self) -> None:
        """Import the kernel.

        Raises:
            WeirError: the package `flash_attn` is not importable.
        """
        try:
            kernels = import_module("flash_attn")
        except ImportError as error:
            raise WeirError(
                Reason.ENGINE_FAILED,
                f"attention 'flash' needs the package flash_attn ({error}); install the extra "
                "'gpu' or choose another attention backend",
            ) from error
        self._kernel: Callable[..., torch.Tensor] = kernels.flash_attn_varlen_func

    def plan(self, batch: ForwardBatch, cache: PagedKvCache) -> "FlashPlan":
        """Make the kernel's index tensors.

        Raises:
            InvalidField: the block size or the dtype of the cache is none of the kernel's.
        """
        _check(cache)
        device = cache.keys[0].device
        ends = [piece.start + piece.length for piece in batch.slices]
        lengths = [piece.length for piece in batch.slices]
        counts = [-(-end // cache.block_size) for end in ends]
        table = torch.zeros(len(ends), max(counts), dtype=torch.int32)
        for row, (piece, count) in enumerate(zip(batch.slices, counts, strict=True)):
            table[row, :count] = torch.as_tensor(piece.block_table[:count], dtype=torch.int32)
        return FlashPlan(
            StepRows.of(batch.slices, cache.block_size, device=device),
            self._kernel,
            _cumulative(lengths, device),
            _cumulative(ends, device),
            max(lengths),
            max(ends),
            table.to(device),
        )


@dataclass(slots=True)
class FlashPlan:
    """See `AttentionPlan`.

    Attributes:
        rows: see there.
        kernel: `flash_attn_varlen_func`.
        cu_seqlens_q, cu_seqlens_k: int32 [sequences + 1], running sums of rows and of keys.
        max_seqlen_q, max_seqlen_k: the longest of each.
        block_table: int32 [sequences, most blocks], 0 where unused.
    """

    rows: StepRows
    kernel: Callable[..., torch.Tensor]
    cu_seqlens_q: torch.Tensor
    cu_seqlens_k: torch.Tensor
    max_seqlen_q: int
    max_seqlen_k: int
    block_table: torch.Tensor

    def attend(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        """See `AttentionPlan.attend`; causal masks are aligned to the last key."""
        output = self.kernel(
            q,
            keys,
            values,
            self.cu_seqlens_q,
            self.cu_seqlens_k,
            self.max_seqlen_q,
            self.max_seqlen_k,
            causal=True,
            window_size=(-1, -1) if window is None else (window - 1, 0),
            block_table=self.block_table,
        )
        return output.flatten(1)


def _cumulative(lengths: list[int], device: torch.device) -> torch.Tensor:
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)


def _check(cache: PagedKvCache) -> None:
    if cache.block_size % _PAGE_MULTIPLE:
        raise InvalidField(
            "block_size", cache.block_size, f"a multiple of {_PAGE_MULTIPLE} for attention 'flash'"
        )
    if cache.keys[0].dtype not in _DTYPES:
        raise InvalidField("dtype", cache.keys[0].dtype, "float16 or bfloat16 for 'flash'")
