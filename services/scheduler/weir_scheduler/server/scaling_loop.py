"""Judges the load of every pool once in a while."""

import asyncio
from collections.abc import Callable

from weir_core.clock import Clock
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_scheduler.scaling.advisor import Advice, Advisor
from weir_scheduler.scaling.recommendation import ScalingReason
from weir_scheduler.scaling.scaling_key import ScalingKey
from weir_scheduler.scaling.signals import ScalingSignals

_log = get_logger(__name__)


class ScalingLoop:
    """Owns the advisor; for one event loop.

    Args:
        read: signals of every pool now.
        advisor: judges them.
        clock: time.
        interval_s: between two readings.
        active: whether this scheduler is the one that dispatches; nothing is judged otherwise.
    """

    def __init__(
        self,
        read: Callable[[], dict[ScalingKey, ScalingSignals]],
        advisor: Advisor,
        clock: Clock,
        interval_s: float,
        active: Callable[[], bool],
    ) -> None:
        self._read = read
        self._advisor = advisor
        self._clock = clock
        self._interval_s = interval_s
        self._active = active
        self._judged = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._told: dict[ScalingKey, int] = {}

    @property
    def last(self) -> list[Advice]:
        """The last answer for every pool."""
        return self._advisor.last

    def start(self) -> None:
        """Begins. Call it once, inside the event loop."""
        self._task = asyncio.create_task(self._run(), name="scaling")

    async def stop(self) -> None:
        """Ends. Idempotent."""
        if self._task is not None:
            await end_task(self._task)

    async def next(self, timeout_s: float) -> bool:
        """Waits for the next judgement; False when there was none in time."""
        try:
            async with asyncio.timeout(timeout_s), self._judged:
                await self._judged.wait()
        except TimeoutError:
            return False
        return True

    async def _run(self) -> None:
        while True:
            try:
                self._judge()
            except Exception:
                # The next reading may be sound; what was told last is too old by then to count.
                _log.exception("scaling_failed")
            async with self._judged:
                self._judged.notify_all()
            await asyncio.sleep(self._interval_s)

    def _judge(self) -> None:
        readings = self._read() if self._active() else {}
        self._advisor.judge(readings, self._clock.monotonic_us())
        for advice in self._advisor.last:
            self._tell(advice)

    def _tell(self, advice: Advice) -> None:
        """One log line for each change of mind."""
        told = self._told.get(advice.key)
        recommendation = advice.recommendation
        if recommendation.reason is ScalingReason.UNKNOWN or told == recommendation.workers:
            return
        self._told[advice.key] = recommendation.workers
        _log.info(
            "scaling",
            model=advice.key.model,
            pool=advice.key.pool,
            workers=recommendation.workers,
            there=advice.signals.workers,
            needed=round(recommendation.needed, 3),
            reason=recommendation.reason.value,
            driver=recommendation.driver,
        )
