"""The KV blocks of a worker, as `GetKvMap` tells them."""

import asyncio
from array import array

from weir.worker.v1.worker_service_pb2 import KvMap
from weir_core.clock import Clock
from weir_core.errors import InvalidField, Reason, WeirError
from weir_worker.engine.client import EngineClient
from weir_worker.engine.events import KvFrame, StepOutput

MOST_RUNS = 16_384
_FRESH_US = 1_000_000
_WAIT_S = 3.0
"""Less than a page of the console waits for its card, so that it gets the reason."""
_ELSEWHERE = "another engine computes for this worker, and tells nothing of its blocks"


class KvMapReport:
    """Asks the engine at most once a second; whoever asks meanwhile gets the same answer.

    A look that takes longer than anybody waits goes on, and what it found is good for as long as
    it took: whoever asks again gets it.

    Args:
        engine: started.
        clock: for ages.
    """

    def __init__(self, engine: EngineClient, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._newest: KvFrame | None = None
        self._taken_us = 0
        self._taken_at_us = 0
        self._asked_us = 0
        self._fresh_us = _FRESH_US
        self._awaited: asyncio.Future[None] | None = None

    def on_output(self, output: StepOutput) -> None:
        """Takes what the engine saw."""
        if output.kv is None:
            return
        self._newest = output.kv
        self._taken_us = self._clock.monotonic_us()
        self._taken_at_us = self._clock.now_us()
        if self._awaited is not None:
            self._fresh_us = max(_FRESH_US, self._taken_us - self._asked_us)
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)
        self._awaited = None

    async def read(self, first_block: int) -> KvMap:
        """The blocks from `first_block` on.

        Raises:
            WeirError: INVALID_FIELD, or DEADLINE_EXCEEDED when the engine says nothing.
        """
        ready = self._engine.ready
        if not 0 <= first_block <= max(0, ready.num_blocks - 1):
            bound = f"0 to {max(0, ready.num_blocks - 1)}, a block of this worker"
            raise InvalidField("first_block", first_block, bound)
        if not ready.kv_bytes_per_token:
            return KvMap(known=False, why=_ELSEWHERE, block_size=ready.block_size)
        told = KvMap(known=True, total_blocks=ready.num_blocks, block_size=ready.block_size)
        _add_runs(told, await self._frame(), first_block)
        told.time.FromMicroseconds(self._taken_at_us)
        return told

    async def _frame(self) -> KvFrame:
        fresh = self._clock.monotonic_us() - self._taken_us < self._fresh_us
        if self._newest is None or not fresh:
            await self._ask()
        assert self._newest is not None
        return self._newest

    async def _ask(self) -> None:
        awaited = self._awaited
        if awaited is None:
            awaited = self._awaited = asyncio.get_running_loop().create_future()
            self._asked_us = self._clock.monotonic_us()
            self._engine.read_kv()
        try:
            async with asyncio.timeout(_WAIT_S):
                await asyncio.shield(awaited)
        except TimeoutError:
            # A look that goes on is not begun anew by it.
            self._engine.read_kv()
            raise WeirError(
                Reason.DEADLINE_EXCEEDED,
                f"the engine told nothing of its KV blocks within {_WAIT_S} s: they are many, or "
                "its steps are long; the look goes on, ask again",
                retry_after_s=1.0,
            ) from None


def _add_runs(told: KvMap, frame: KvFrame, first_block: int) -> None:
    """Adds runs from a block on, as many as fit, and says where the rest begins."""
    told.tenants.extend(frame.tenants)
    columns = (("I", frame.lengths), ("B", frame.states), ("I", frame.owners))
    lengths, states, owners = (array(code, column) for code, column in columns)
    references = array("I", frame.references)
    at = 0
    for run, length in enumerate(lengths):
        end = at + length
        if end > first_block:
            if len(told.lengths) == MOST_RUNS:
                told.next_block = at
                return
            told.lengths.append(end - max(at, first_block))
            told.states.append(states[run])  # type: ignore[arg-type]
            told.owners.append(owners[run])
            told.references.append(references[run])
        at = end
