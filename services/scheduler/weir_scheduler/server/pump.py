"""Runs the scheduler's single-writer core on the event loop."""

import asyncio
from collections.abc import Callable

from weir_core.clock import Clock
from weir_core.telemetry.logs import get_logger
from weir_scheduler.scheduler import Scheduler

_log = get_logger(__name__)


def log_fault(what: str, fault: Exception) -> None:
    """The `on_fault` of a scheduler that serves."""
    _log.error("scheduler_fault", of=what, exc_info=fault)


class Pump:
    """Calls `Scheduler.pump` once after every batch of calls, and when something is due.

    Whatever arrives in one turn of the loop is decided on together.

    Args:
        scheduler: of the process.
        clock: time.
        active: whether this scheduler may act; looked at before every decision.
    """

    def __init__(
        self, scheduler: Scheduler, clock: Clock, active: Callable[[], bool] = lambda: True
    ) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._active = active
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None

    def poke(self) -> None:
        """The scheduler was told something."""
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._run)

    def stop(self) -> None:
        """Decides nothing any more."""
        for handle in (self._soon, self._later):
            if handle is not None:
                handle.cancel()

    def _run(self) -> None:
        self._soon = None
        if not self._active():
            return
        try:
            self._scheduler.pump()
        except Exception as error:
            # What one request breaks is caught within, see `dispatch/faults.py`.
            _log.error("pump_failed", exc_info=error)
        self._arm(self.poke)

    def _arm(self, then: Callable[[], None]) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        wake_us = self._scheduler.next_wake_us()
        if wake_us is not None:
            delay_s = max(0.001, (wake_us - self._clock.monotonic_us()) / 1e6)
            self._later = asyncio.get_running_loop().call_later(delay_s, then)
