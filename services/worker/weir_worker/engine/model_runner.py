"""Runs a torch model."""

from collections.abc import Sequence

import torch

from weir_worker.models.base import CausalModel, ForwardBatch, ToldRow
from weir_worker.sampling import Samples, SamplingState
from weir_worker.sampling.logprobs import token_logprobs
from weir_worker.sampling.sampler import sample


class ModelRunner:
    """Forward pass, then sampling."""

    def __init__(self, model: CausalModel) -> None:
        self._model = model

    def run(self, batch: ForwardBatch, states: Sequence[SamplingState]) -> Samples:
        """See `StepRunner.run`."""
        with torch.inference_mode():
            if not batch.pooled:
                return draw(self._model.forward(batch), batch, states)
            logits, sums = self._model.pool(batch)
            samples = draw(logits, batch, states)
            samples.pooled = sums.tolist()
            return samples

    def clear(self, blocks: Sequence[int]) -> None:
        """See `StepRunner.clear`."""
        self._model.clear_kv(blocks)


def draw(logits: torch.Tensor, batch: ForwardBatch, states: Sequence[SamplingState]) -> Samples:
    """The tokens of a computed step, and what is told of prompts."""
    if batch.told:
        return _sample_and_tell(logits, batch.told, states)
    return sample(logits, states) if states else Samples([])


def _sample_and_tell(
    logits: torch.Tensor, told: Sequence[ToldRow], states: Sequence[SamplingState]
) -> Samples:
    of_prompts = {row.index for row in told}
    drawn = [row for row in range(len(logits)) if row not in of_prompts]
    samples = sample(logits[drawn], states) if states else Samples([])
    samples.prompt_logprobs = [
        token_logprobs(logits[row.index], row.token_id, row.top) for row in told
    ]
    return samples
