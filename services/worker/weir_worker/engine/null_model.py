"""A model that computes nothing: it measures and tests everything around a model."""

import time
from collections.abc import Sequence

from weir_worker.models.base import ForwardBatch
from weir_worker.sampling import Samples, SamplingState, TokenLogprobs

MODEL_TYPE = "weir_null"
KV_BYTES_PER_TOKEN = 8
WIDTH = 16
"""Of its embeddings."""

_ALPHABET = b"abcdefghijklmnopqrstuvwxyz "


class NullRunner:
    """One printable token for each row, the same for the same position, never an end.

    Token ids below 256 are bytes. Embeddings follow from the tokens. Steps take a fixed time and
    no work that grows with the vocabulary.
    """

    def __init__(self, step_us: int = 0) -> None:
        self._step_s = step_us / 1e6

    def run(self, batch: ForwardBatch, states: Sequence[SamplingState]) -> Samples:
        """See `StepRunner.run`."""
        if self._step_s:
            time.sleep(self._step_s)
        samples = Samples([_ALPHABET[state.drawn % len(_ALPHABET)] for state in states])
        samples.prompt_logprobs = [TokenLogprobs(0.0, [], []) for _ in batch.told]
        samples.pooled = [
            _sum_of(batch.token_ids[first : first + length]) for first, length in batch.pooled
        ]
        return samples

    def clear(self, blocks: Sequence[int]) -> None:
        """There is nothing to wipe."""


def _sum_of(token_ids: Sequence[int]) -> list[float]:
    """What stands for hidden states: as many numbers as `WIDTH`, the same for the same tokens."""
    sums = [0.0] * WIDTH
    for token_id in token_ids:
        for place in range(WIDTH):
            sums[place] += ((token_id + 1) * (place + 2) * 7919 % 1009) / 1009 - 0.45
    return sums
