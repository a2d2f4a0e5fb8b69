"""Notes whom this scheduler serves, and waits for those of the one before."""

import asyncio

from weir_core.telemetry.logs import get_logger
from weir_scheduler.leadership.leadership import Leadership
from weir_scheduler.leadership.roll import Roll
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.server.pump import Pump
from weir_scheduler.server.streams import Streams

_log = get_logger(__name__)


class RollKeeper:
    """One task for each term: reads the roll of the term before, then keeps its own.

    Args:
        leadership: where the roll is noted.
        scheduler: is told who is expected.
        streams: who is there.
        pump: poked when that changes what may be done.
        interval_s: between two looks.
    """

    def __init__(
        self,
        leadership: Leadership,
        scheduler: Scheduler,
        streams: Streams,
        pump: Pump,
        *,
        interval_s: float,
    ) -> None:
        self._leadership = leadership
        self._scheduler = scheduler
        self._streams = streams
        self._pump = pump
        self._interval_s = interval_s
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """This scheduler has become active."""
        self.end()
        self._task = asyncio.create_task(self._keep(), name="roll")

    def end(self) -> None:
        """It is active no more. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _keep(self) -> None:
        noted = await self._leadership.noted()
        roll = Roll.of(noted)
        if roll is not None:
            _log.info("takes_over", peers=len(roll.peers))
            self._scheduler.expect(roll.peers)
            self._pump.poke()
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                noted = await self._note(noted)
            except Exception as error:
                # Without this task the next term would wait for peers that are long gone.
                _log.error("roll_failed", exc_info=error)

    async def _note(self, noted: str) -> str:
        """Notes who is there, if that is news; returns what is noted now."""
        text = Roll.call(self._streams.peers).text()
        changed = text != noted and self._leadership.active()
        return text if changed and await self._leadership.note(text) else noted
