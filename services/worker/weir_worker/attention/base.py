"""How the model asks for attention over the paged cache.

A backend looks at a step once and answers with a plan, which every layer then uses: what
depends on the step alone (masks, block lists, positions) is made once instead of per layer.
"""

from typing import Protocol, runtime_checkable

import torch

from weir_worker.attention.cache import PagedKvCache
from weir_worker.attention.rows import StepRows
from weir_worker.attention.tables import PagedTables
from weir_worker.models.base import ForwardBatch


class AttentionPlan(Protocol):
    """Attention of one step.

    Attributes:
        rows: order, positions and cache slots of the step's rows.
    """

    rows: StepRows

    def attend(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        """Causal attention of every row over its own sequence, itself included.

        The keys and values of the step's rows are in the cache already.

        Args:
            q: [rows, num_heads, head_dim] in the plan's order.
            keys: [num_blocks, block_size, num_kv_heads, head_dim] of the layer.
            values: the same shape.
            window: last tokens that a row sees, itself included; None: all.

        Returns:
            [rows, num_heads * head_dim]; valid until the next call of this plan.
        """
        ...


class AttentionBackend(Protocol):
    """Makes plans.

    Attributes:
        name: what `make_attention` calls it.
    """

    name: str

    def plan(self, batch: ForwardBatch, cache: PagedKvCache) -> AttentionPlan:
        """Prepare a step over this cache."""
        ...


@runtime_checkable
class DecodePlanner(AttentionBackend, Protocol):
    """A backend whose decode steps can be recorded once and replayed with other contents."""

    def decode_plan(self, rows: StepRows, tables: PagedTables) -> AttentionPlan:
        """Plan for one row of every sequence, looking at no content of the tensors."""
        ...
