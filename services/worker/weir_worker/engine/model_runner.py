"""Runs a torch model."""

from collections.abc import Sequence

import torch

from weir_worker.models.base import CausalModel, ForwardBatch
from weir_worker.sampling import Samples, SamplingState
from weir_worker.sampling.sampler import sample


class ModelRunner:
    """Forward pass, then sampling."""

    def __init__(self, model: CausalModel) -> None:
        self._model = model

    def run(self, batch: ForwardBatch, states: Sequence[SamplingState]) -> Samples:
        """See `StepRunner.run`."""
        with torch.inference_mode():
            logits = self._model.forward(batch)
            return sample(logits, states) if states else Samples([])

    def clear(self, blocks: Sequence[int]) -> None:
        """See `StepRunner.clear`."""
        self._model.clear_kv(blocks)
