"""One request in the queues of several models: the first that gets a worker runs."""

import asyncio

from weir.common.v1.lifecycle_pb2 import Outcome
from weir_core.errors import Reason, WeirError
from weir_gateway.flow.admission import Admission
from weir_gateway.flow.ending import StopCause
from weir_gateway.flow.live_state import State

_WAITS = (State.RESERVING, State.QUEUED)


class QueueRace:
    """Decides in the moment in which one is placed, so that never two of them run.

    Args:
        first: as it was asked for.
    """

    def __init__(self, first: Admission) -> None:
        self._entries: list[Admission] = []
        self._news = asyncio.Event()
        self.winner: Admission | None = None
        self.enter(first)

    def enter(self, admission: Admission) -> None:
        """Another form of the request waits too."""
        live = admission.live
        self._entries.append(admission)
        live.on_placed = lambda: self._placed(admission)
        live.ended.add_done_callback(lambda _: self._news.set())
        if live.state not in _WAITS and not live.ended.done():
            self._placed(admission)

    @property
    def waiting(self) -> list[Admission]:
        """Those that have not ended."""
        return [entry for entry in self._entries if not entry.live.ended.done()]

    async def news(self, timeout_s: float | None) -> bool:
        """Waits for a winner, or for an end; False when neither came in time.

        Every request ends by its own deadline.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    def stop(self, cause: StopCause) -> None:
        """Ends them all."""
        for entry in self._entries:
            entry.live.stop(cause)

    def leave(self) -> None:
        """What becomes of them is of no more interest."""
        for entry in self._entries:
            entry.live.on_placed = _nothing

    def _placed(self, admission: Admission) -> None:
        if self.winner is not None:
            return
        self.winner = admission
        for entry in self._entries:
            if entry is not admission:
                entry.live.stop(_outrun(admission))
        self._news.set()


def _nothing() -> None:
    """Hears nothing."""


def _outrun(winner: Admission) -> StopCause:
    model = winner.live.prepared.subject.model
    return StopCause(
        Outcome.OUTCOME_SHED,
        WeirError(
            Reason.QUEUE_TIMEOUT,
            f"a worker of {model} was free earlier; {winner.live.id} is this request on it",
        ),
    )
