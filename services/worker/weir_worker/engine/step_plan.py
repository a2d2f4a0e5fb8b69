"""What one step computes."""

from dataclasses import dataclass, field

from weir_worker.engine.sequence import Sequence
from weir_worker.models.base import ForwardBatch
from weir_worker.sampling import SamplingState


@dataclass(slots=True)
class StepPlan:
    """Rows of one step, decodes first.

    Attributes:
        sequences: whose rows, in the order of the batch.
        lengths: rows of each.
        decodes: how many of the sequences have one row to compute; they lead.
    """

    sequences: list[Sequence] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    decodes: int = 0

    def batch(self) -> tuple[ForwardBatch, list[SamplingState]]:
        """Return the model's input, and the sampling state of each row with logits."""
        tokens: list[int] = []
        slices = []
        logit_rows = []
        states = []
        for sequence, length in zip(self.sequences, self.lengths, strict=True):
            start = sequence.computed
            end = start + length
            if length == 1:
                tokens.append(sequence.token_ids[start])
            else:
                tokens.extend(sequence.token_ids[start:end])
            sequence.slice.start = start
            sequence.slice.length = length
            slices.append(sequence.slice)
            if end == len(sequence.token_ids):
                logit_rows.append(len(tokens) - 1)
                states.append(sequence.sampling)
        return ForwardBatch(tokens, slices, logit_rows), states
