"""Decode steps as recorded work: one start of a graph where there were hundreds of kernels."""

import torch

from weir_worker.engine.decode_inputs import DecodeInputs
from weir_worker.engine.graph_recorder import GraphRecorder, RecordedWork
from weir_worker.models.base import ForwardBatch
from weir_worker.models.llama import LlamaModel


class DecodeGraphs:
    """A recording for each bucket of rows: 1, 2, 4, 8 and so on; a batch takes the next larger.

    Holds for steps of which every sequence computes one row and draws a token; others are
    computed as they come.
    """

    def __init__(self, model: LlamaModel, inputs: DecodeInputs, recorder: GraphRecorder) -> None:
        """Record every bucket, the largest first: its memory serves the others."""
        self._inputs = inputs
        self._recorded = {
            rows: self._record(model, rows, recorder) for rows in _buckets(inputs.rows)
        }

    @property
    def buckets(self) -> list[int]:
        """Rows of the recordings, ascending."""
        return sorted(self._recorded)

    def takes(self, batch: ForwardBatch) -> bool:
        """Whether the batch is one for a recording."""
        count = len(batch.slices)
        return count == len(batch.token_ids) == len(batch.logit_rows) <= self._inputs.rows

    def forward(self, batch: ForwardBatch) -> torch.Tensor:
        """Start the step; logits [rows, vocab_size], overwritten by the next."""
        count = len(batch.slices)
        rows = next(rows for rows in self.buckets if rows >= count)
        self._inputs.fill(batch, rows)
        recorded = self._recorded[rows]
        recorded.replay()
        return recorded.output[:count]

    def _record(self, model: LlamaModel, rows: int, recorder: GraphRecorder) -> RecordedWork:
        inputs = self._inputs
        plan = model.decode_plan(inputs.step_rows(rows), inputs.tables(rows))
        tokens, wanted = inputs.tokens(rows), inputs.wanted[:rows]
        return recorder.record(lambda: model.compute(tokens, plan, wanted))


def _buckets(most: int) -> list[int]:
    buckets = [most]
    size = 1 << (most - 1).bit_length()
    while size > 1:
        size //= 2
        if size < most:
            buckets.append(size)
    return buckets
