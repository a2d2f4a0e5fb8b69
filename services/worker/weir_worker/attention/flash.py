"""Attention by the FlashAttention 2 kernel over the paged cache, on CUDA.

Source: Dao, "FlashAttention-2", 2023, and the `flash_attn` package, whose
`flash_attn_varlen_func` takes a block table. Not yet run on a GPU: the tests hold the plan
against the oracle with a stand-in of the kernel's documented behaviour.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch

from weir_worker.attention.cache import PagedKvCache
from weir_worker.attention.rows import StepRows
from weir_worker.attention.site import AttentionSite
from weir_worker.attention.tables import PagedTables
from weir_worker.models.base import ForwardBatch

_PAGE_MULTIPLE = 256
_WIDEST_HEAD = 256


class FlashAttention:
    """One call for all sequences of a step, prefills and decodes alike."""

    name = "flash"

    def __init__(self) -> None:
        """Import the kernel; raises ImportError where `refusal` says so."""
        kernel = import_module("flash_attn").flash_attn_varlen_func
        self._kernel: Callable[..., torch.Tensor] = kernel

    @staticmethod
    def refusal(site: AttentionSite) -> str | None:
        """Why it cannot serve there; None if it can."""
        try:
            import_module("flash_attn")
        except ImportError as error:
            return f"the package flash_attn cannot be imported ({error}); install the extra 'flash'"
        if site.block_size % _PAGE_MULTIPLE:
            return f"block_size is {site.block_size}; it must be a multiple of {_PAGE_MULTIPLE}"
        if site.head_dim > _WIDEST_HEAD or site.head_dim % 8:
            return f"heads have {site.head_dim} elements; it wants a multiple of 8 up to 256"
        return site.needs_half() or site.needs_cuda()

    def plan(self, batch: ForwardBatch, cache: PagedKvCache) -> "FlashPlan":
        """Make the kernel's index tensors."""
        device = cache.keys[0].device
        return FlashPlan(
            StepRows.of(batch.slices, cache.block_size, device=device),
            self._kernel,
            PagedTables.of(batch, cache.block_size, device),
        )


@dataclass(slots=True)
class FlashPlan:
    """See `AttentionPlan`.

    Attributes:
        rows: see there.
        kernel: `flash_attn_varlen_func`.
        tables: of the step.
    """

    rows: StepRows
    kernel: Callable[..., torch.Tensor]
    tables: PagedTables

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
            self.tables.first_rows,
            self.tables.first_keys,
            self.tables.max_rows,
            self.tables.max_keys,
            causal=True,
            window_size=(-1, -1) if window is None else (window - 1, 0),
            block_table=self.tables.blocks,
        )
        return output.flatten(1)
