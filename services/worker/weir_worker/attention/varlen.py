"""Attention by torch's own `varlen_attn` over the paged cache, on CUDA, from torch 2.12 on.

Block tables are a feature of FlashAttention 3 (Hopper) and 4 (Blackwell), which come in
packages of their own and are switched on in torch; the FlashAttention 2 inside torch takes
none. Not yet run on a GPU: the tests hold the plan against the oracle with a stand-in of the
function's documented behaviour.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from types import ModuleType

import torch

from weir_worker.attention.cache import PagedKvCache
from weir_worker.attention.rows import StepRows
from weir_worker.attention.site import AttentionSite
from weir_worker.attention.tables import PagedTables
from weir_worker.models.base import ForwardBatch

_MODULE = "torch.nn.attention.varlen"
_NEEDED = ("block_table", "enable_gqa", "num_splits", "seqused_k")
_IMPLEMENTATIONS = {9: "FA3", 10: "FA4"}


class VarlenAttention:
    """One call for all sequences of a step, its keys never split: the same in any company."""

    name = "varlen"

    def __init__(self) -> None:
        """Take the function; raises ImportError where `refusal` says so."""
        self._function: Callable[..., torch.Tensor] = import_module(_MODULE).varlen_attn

    @staticmethod
    def refusal(site: AttentionSite) -> str | None:
        """Why it cannot serve there; None if it can, and then its kernels are switched on."""
        try:
            function = import_module(_MODULE).varlen_attn
        except (ImportError, AttributeError):
            return f"torch {torch.__version__} has no varlen_attn; 2.12 has"
        missing = [name for name in _NEEDED if name not in signature(function).parameters]
        if missing:
            return f"varlen_attn of torch {torch.__version__} has no {', '.join(missing)}"
        return site.needs_half() or site.needs_cuda() or _activate(site.device)

    def plan(self, batch: ForwardBatch, cache: PagedKvCache) -> "VarlenPlan":
        """Make the function's index tensors."""
        device = cache.keys[0].device
        return VarlenPlan(
            StepRows.of(batch.slices, cache.block_size, device=device),
            self._function,
            PagedTables.of(batch, cache.block_size, device),
        )


@dataclass(slots=True)
class VarlenPlan:
    """See `AttentionPlan`.

    Attributes:
        rows: see there.
        function: `varlen_attn`.
        tables: of the step.
    """

    rows: StepRows
    function: Callable[..., torch.Tensor]
    tables: PagedTables

    def attend(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        """See `AttentionPlan.attend`; causal masks are aligned to the last key."""
        output = self.function(
            q,
            keys,
            values,
            self.tables.first_rows,
            None,
            self.tables.max_rows,
            self.tables.max_keys,
            window_size=(-1 if window is None else window - 1, 0),
            enable_gqa=True,
            seqused_k=self.tables.lengths,
            block_table=self.tables.blocks,
            num_splits=1,
        )
        return output.flatten(1)


def _activate(device: torch.device) -> str | None:
    attention: ModuleType = torch.nn.attention
    active = attention.current_flash_attention_impl()
    major, minor = torch.cuda.get_device_capability(device)
    wanted = _IMPLEMENTATIONS.get(major)
    if wanted is None:
        return f"compute capability {major}.{minor}: FlashAttention 3 wants 9.x, 4 wants 10.x"
    if active == wanted:
        return None
    try:
        attention.activate_flash_attention_impl(wanted)
    except Exception as error:  # whatever a package of another version throws at import
        return f"{wanted} cannot be switched on in torch ({error})"
    return None
