"""What one step computes."""

from dataclasses import dataclass, field

from weir_worker.engine.sequence import Sequence
from weir_worker.engine.step_cost import StepShape
from weir_worker.models.base import ForwardBatch, ToldRow
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

    def note_chunks(self, start_us: int, end_us: int) -> None:
        """Tell the timelines of what this step computed beside decodes."""
        first = self.decodes
        for sequence, length in zip(self.sequences[first:], self.lengths[first:], strict=True):
            sequence.timeline.chunk(start_us, end_us, length)

    def shape(self) -> StepShape:
        """Return how much it computes, as long as it has not been computed."""
        pieces = list(zip((s.computed for s in self.sequences), self.lengths, strict=True))
        decodes = [start + 1 for start, _ in pieces[: self.decodes]]
        return StepShape.of(decodes, pieces[self.decodes :])

    def batch(self) -> tuple[ForwardBatch, list[SamplingState]]:
        """Return the model's input, and the sampling state of each row with logits."""
        tokens: list[int] = []
        slices = []
        logit_rows: list[int] = []
        states = []
        told: list[ToldRow] = []
        pooled: list[tuple[int, int]] = []
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
            if sequence.told is not None:
                _tell(sequence, length, len(tokens) - length, logit_rows, told)
            if sequence.pooled is not None:
                pooled.append((len(tokens) - length, length))
            elif end == len(sequence.token_ids):
                logit_rows.append(len(tokens) - 1)
                states.append(sequence.sampling)
        return ForwardBatch(tokens, slices, logit_rows, told, pooled), states


def _tell(
    sequence: Sequence, length: int, first_row: int, logit_rows: list[int], told: list[ToldRow]
) -> None:
    """Ask for the logits of the prompt's rows that tell about its tokens."""
    for position in sequence.untold(length):
        told.append(
            ToldRow(
                len(logit_rows),
                sequence.token_ids[position + 1],
                sequence.sampling.params.prompt_logprobs or 0,
            )
        )
        logit_rows.append(first_row + position - sequence.computed)
