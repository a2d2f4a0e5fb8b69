"""What computes all layers of a model at once, where something can."""

from collections.abc import Sequence
from typing import Protocol

import torch

from weir_worker.attention import AttentionPlan, PagedKvCache
from weir_worker.models.rope import RotaryTable


class Decoder(Protocol):
    """All decoder layers of one model, from the embedding to the last norm."""

    def bind(self, cache: PagedKvCache, rotary: Sequence[RotaryTable]) -> None:
        """Use this cache and the angles of each layer from now on.

        Raises:
            InvalidField: they are not of the layout that it knows.
        """
        ...

    def run(self, x: torch.Tensor, plan: AttentionPlan, wanted: torch.Tensor) -> torch.Tensor:
        """Compute a step and write its keys and values.

        Args:
            x: fp32 [rows, hidden_size], the embedded tokens in the plan's order; overwritten.
            plan: of the model's attention backend.
            wanted: int64, ascending rows whose result is asked for.

        Returns:
            The residual stream of the wanted rows, a part of `x`.

        Raises:
            InvalidField: something does not fit.
        """
        ...
