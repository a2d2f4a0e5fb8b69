"""The seam between the step loop and whatever makes tokens."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from weir_worker.models.base import ForwardBatch
from weir_worker.sampling import Samples, SamplingState


class StepRunner(Protocol):
    """Computes one step: a forward pass and one sampled token for each row with logits."""

    def run(self, batch: ForwardBatch, states: Sequence[SamplingState]) -> Samples:
        """Write the KV of all rows and return the tokens of `batch.logit_rows`.

        A row that fails alone is named in the result; an exception fails the whole batch.
        """
        ...

    def clear(self, blocks: Sequence[int]) -> None:
        """Overwrite the KV of blocks that may hold NaN with zeros."""
        ...


class PendingStep(Protocol):
    """A step that was started."""

    def wait(self) -> Samples:
        """Wait for its tokens; raises what the step raised."""
        ...


@runtime_checkable
class OverlappingRunner(StepRunner, Protocol):
    """A runner whose steps are computed elsewhere, while the engine does other things."""

    def start(self, batch: ForwardBatch, states: Sequence[SamplingState]) -> PendingStep:
        """Start what `run` does. The next step is started only when this was waited for."""
        ...
