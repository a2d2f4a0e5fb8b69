"""Runs a torch model on a GPU, and leaves the engine free while the GPU works."""

from collections.abc import Callable, Sequence

import torch

from weir_worker.engine.decode_graphs import DecodeGraphs
from weir_worker.engine.model_runner import draw
from weir_worker.engine.runner import PendingStep
from weir_worker.models.base import CausalModel, ForwardBatch, SequenceSlice
from weir_worker.sampling import Samples, SamplingParams, SamplingState

_WARM_UP_ROWS = 65  # too many for a program of short pieces


class CudaRunner:
    """See `OverlappingRunner`.

    A step in which every row takes its likeliest token is chosen on the GPU and copied to the
    host behind the engine's back; any other is drawn when it is waited for.
    """

    def __init__(self, model: CausalModel, device: torch.device) -> None:
        self._model = model
        self._device = device
        self._graphs: DecodeGraphs | None = None

    def use(self, graphs: DecodeGraphs | None) -> None:
        """From now on, compute decode steps by these recordings."""
        self._graphs = graphs

    def warm_up(self, spare_block: int, block_size: int, rows: int) -> None:
        """Compute a step of a decode and a prompt, so that kernels are compiled before requests.

        Args:
            spare_block: no sequence has it; its contents do not matter.
            block_size: tokens of it.
            rows: the most rows of a step.
        """
        length = max(1, min(_WARM_UP_ROWS, rows - 1))
        table = [spare_block] * -(-length // block_size)
        slices = [SequenceSlice(0, 1, table), SequenceSlice(0, length, table)]
        states = [SamplingState(SamplingParams(temperature=0.0)) for _ in slices]
        self.run(ForwardBatch([0] * (length + 1), slices, [0, length]), states)

    def start(self, batch: ForwardBatch, states: Sequence[SamplingState]) -> PendingStep:
        """See `OverlappingRunner.start`."""
        with torch.inference_mode():
            if batch.pooled:
                logits, sums = self._model.pool(batch)
                return _DrawnStep(logits, batch, states, None, sums)
            if self._graphs is not None and self._graphs.takes(batch):
                logits = self._graphs.forward(batch)
            else:
                logits = self._model.forward(batch)
            if states and not batch.told and all(_takes_likeliest(state) for state in states):
                return _LikeliestStep(logits, self._event)
            drawn = bool(states or batch.told)
            return _DrawnStep(logits, batch, states, None if drawn else self._event())

    def run(self, batch: ForwardBatch, states: Sequence[SamplingState]) -> Samples:
        """See `StepRunner.run`."""
        return self.start(batch, states).wait()

    def clear(self, blocks: Sequence[int]) -> None:
        """See `StepRunner.clear`."""
        self._model.clear_kv(blocks)

    def _event(self) -> Callable[[], None]:
        """Waits for what is queued now."""
        if self._device.type != "cuda":
            return lambda: None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event.synchronize


class _LikeliestStep:
    """Tokens on their way to the host."""

    def __init__(self, logits: torch.Tensor, event: Callable[[], Callable[[], None]]) -> None:
        peaks, tokens = logits.max(dim=-1)
        # max() passes NaN on: a row without a finite peak has no token.
        chosen = tokens.masked_fill_(~torch.isfinite(peaks), -1)
        pinned = chosen.device.type == "cuda"
        self._tokens = torch.empty(len(chosen), dtype=torch.int64, pin_memory=pinned)
        self._tokens.copy_(chosen, non_blocking=True)
        self._wait = event()

    def wait(self) -> Samples:
        """See `PendingStep.wait`."""
        self._wait()
        samples = Samples(self._tokens.tolist())
        samples.failures = {
            row: "the model's logits are not finite"
            for row, token in enumerate(samples.tokens)
            if token < 0
        }
        return samples


class _DrawnStep:
    """Logits, of which nothing is drawn yet; `wait` for a step that nothing is drawn from."""

    def __init__(
        self,
        logits: torch.Tensor,
        batch: ForwardBatch,
        states: Sequence[SamplingState],
        wait: Callable[[], None] | None,
        sums: torch.Tensor | None = None,
    ) -> None:
        self._sums = sums
        self._logits = logits
        self._batch = batch
        self._states = states
        self._wait = wait

    def wait(self) -> Samples:
        """See `PendingStep.wait`."""
        if self._wait is not None:
            # Or its time would be taken for that of the next step.
            self._wait()
        with torch.inference_mode():
            samples = draw(self._logits, self._batch, self._states)
        if self._sums is not None:
            samples.pooled = self._sums.tolist()
        return samples


def _takes_likeliest(state: SamplingState) -> bool:
    return state.greedy and not state.adjusts and state.params.logprobs is None
