"""Takes no new attempts and lets the running ones end."""

import asyncio
from collections.abc import Callable

from weir_core.telemetry.logs import get_logger
from weir_worker.attempts import Attempts

_log = get_logger(__name__)


class Drain:
    """The one place that begins and ends a drain.

    Args:
        attempts: of the worker.
        on_change: called when a drain begins or is cancelled.
        on_left: called once when a drain that was to end in leaving has nothing more to run.
    """

    def __init__(
        self,
        attempts: Attempts,
        *,
        on_change: Callable[[], object],
        on_left: Callable[[str], object],
    ) -> None:
        self._attempts = attempts
        self._on_change = on_change
        self._on_left = on_left
        self._leaving: asyncio.Task[None] | None = None
        self._final = False

    @property
    def active(self) -> bool:
        """Whether new attempts are refused."""
        return self._attempts.draining

    def begin(self, why: str, *, leave: bool = False, final: bool = False) -> None:
        """Refuses new attempts from now on. Idempotent.

        With `leave` the worker ends once nothing runs; a `final` drain cannot be cancelled.
        """
        self._final = self._final or final
        if leave and self._leaving is None:
            self._leaving = asyncio.create_task(self._leave(why), name="leave-when-idle")
        if not self._attempts.draining:
            self._attempts.draining = True
            _log.info("draining", why=why, running=len(self._attempts), leave=leave)
            self._on_change()

    def cancel(self) -> None:
        """Takes attempts again, unless the worker is ending anyhow. Idempotent."""
        if self._final:
            return
        self.stop()
        if self._attempts.draining:
            self._attempts.draining = False
            _log.info("drain_cancelled")
            self._on_change()

    async def wait(self, timeout_s: float) -> bool:
        """Waits until nothing runs; False when that took longer than `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._attempts.wait_idle()
        except TimeoutError:
            return False
        return True

    def stop(self) -> None:
        """Gives up leaving, if it was asked for."""
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None

    async def _leave(self, why: str) -> None:
        # No deadline: whoever wants the worker gone sooner sends SIGTERM.
        await self._attempts.wait_idle()
        self._on_left(f"drained: {why}")
