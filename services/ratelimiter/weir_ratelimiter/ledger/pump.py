"""Moves events from the account's outbox into the ledger."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from weir_core.errors import WeirError
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.domain.change import EventKind, LedgerEvent
from weir_ratelimiter.ledger.database import FAILURES, cause_of, told_as_unavailable
from weir_ratelimiter.ledger.metrics import LedgerMetrics
from weir_ratelimiter.ledger.redrive import Redrive
from weir_ratelimiter.ledger.rejects import POISON, Rejects
from weir_ratelimiter.ledger.writer import LedgerWriter
from weir_ratelimiter.store.base import Backlog, Mark, OutboxEntry

_log = get_logger(__name__)

_BATCH = 500
_INTERVAL_S = 1.0
_LONGEST_PAUSE_S = 5.0
_STORE_S = 10.0
# Callers wait 10 s by default: they are told why within it.
_FLUSH_S = 8.0


class Outbox(Protocol):
    """What the pump needs of a store; see `Store`."""

    async def outbox(self, most: int) -> Sequence[OutboxEntry]:
        """The oldest events that no ledger has acknowledged."""

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """Forget events that the ledger has."""

    async def backlog(self) -> Backlog:
        """How far the ledger is behind."""

    async def mark(self, tenant_id: str) -> Mark:
        """A place behind every event that any process has written by now."""

    async def is_past(self, mark: Mark) -> bool:
        """Whether every event of before a mark is acknowledged."""


class LedgerPump:
    """Writes what the outbox holds, batch by batch, and only then acknowledges it.

    kill -9 between the two leads to a repeat, which changes nothing: rows are unique. Any number
    of pumps may share one outbox. While the database is down the events stay where they are.

    Args:
        outbox: the account's store.
        writer: of the ledger.
        rejects: where events go that cannot be written.
        metrics: of this pump.
        now_ms: wall time, Unix milliseconds.
    """

    def __init__(
        self,
        outbox: Outbox,
        writer: LedgerWriter,
        rejects: Rejects,
        metrics: LedgerMetrics,
        now_ms: Callable[[], int],
    ) -> None:
        self._outbox = outbox
        self._writer = writer
        self._rejects = rejects
        self._redrive = Redrive(writer, rejects)
        self._metrics = metrics
        self._now_ms = now_ms
        self._moving = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.last_error = ""

    def start(self) -> None:
        """Begin to move events."""
        self._task = asyncio.create_task(self._run(), name="ledger-pump")

    async def stop(self, drain_s: float = 2.0) -> None:
        """Move what is left, for at most `drain_s` seconds, and end."""
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(drain_s):
                    await end_task(self._task)
            self._task = None
        try:
            async with asyncio.timeout(drain_s):
                await self._drain()
        except (*FAILURES, WeirError) as error:
            _log.warning("ledger_not_drained", cause=cause_of(error))

    async def flush(self, tenant_id: str = "") -> None:
        """Return when every event of before this call, by whichever process, is in the ledger.

        Args:
            tenant_id: whose events are meant; empty: everybody's, which is dearer to find out.

        Raises:
            WeirError: LIMITER_UNAVAILABLE if that cannot be done within 8 seconds.
        """
        with told_as_unavailable():
            try:
                async with asyncio.timeout(_FLUSH_S):
                    await self._move_before(await self._outbox.mark(tenant_id))
            except FAILURES as error:
                self._failed(error)
                raise

    async def _move_before(self, mark: Mark) -> None:
        async with self._moving:
            while not await self._outbox.is_past(mark):
                await self._move()

    async def _drain(self) -> None:
        async with self._moving:
            await self._move_all()

    async def _move_all(self) -> None:
        """Move as many events as there are now; what comes meanwhile is for the next round."""
        async with asyncio.timeout(_STORE_S):
            left = (await self._outbox.backlog()).events
        while left > 0:
            moved = await self._move()
            if not moved:
                return
            left -= moved

    async def _run(self) -> None:
        pause_s = _INTERVAL_S
        redriven = False
        while True:
            await asyncio.sleep(pause_s)
            redriven = redriven or await self._tried(self._redrive.run)
            moved = await self._tried(self._drain)
            if moved:
                self.last_error = ""
            pause_s = _INTERVAL_S if moved else min(2 * pause_s, _LONGEST_PAUSE_S)
            await self._tried(self._measure)

    async def _tried(self, work: Callable[[], Awaitable[object]]) -> bool:
        """Whether it succeeded; nothing that it raises ends the pump."""
        try:
            await work()
        except Exception as error:
            self._failed(error)
            return False
        return True

    async def _move(self) -> int:
        async with asyncio.timeout(_STORE_S):
            entries = await self._outbox.outbox(_BATCH)
        if entries:
            await self._book([entry.event for entry in entries])
            async with asyncio.timeout(_STORE_S):
                await self._outbox.acknowledge([entry.id for entry in entries])
        return len(entries)

    async def _book(self, events: Sequence[LedgerEvent]) -> None:
        try:
            written = await self._writer.write(events)
        except POISON as error:
            await self._set_aside(events, error)
            return
        for kind, number in Counter(row.kind for row in written.rows).items():
            self._metrics.written(EventKind(kind).name.lower(), number)
        self._metrics.repeated(written.repeats)
        for other in written.contradictions:
            self._metrics.failed("rejected")
            _log.error(
                "ledger_event_contradicts_row",
                reservation_id=other.row.reservation_id,
                kind=other.row.kind,
                row_id=other.kept_id,
                hint="see ledger_rejects",
            )

    async def _set_aside(self, events: Sequence[LedgerEvent], error: Exception) -> None:
        """Find the event that spoils the batch: alone it goes to the rejects."""
        if len(events) > 1:
            for half in (events[: len(events) // 2], events[len(events) // 2 :]):
                await self._book(half)
            return
        await self._rejects.add(events[0], cause_of(error))
        self._metrics.failed("rejected")
        _log.error(
            "ledger_event_rejected",
            reservation_id=events[0].reservation_id,
            kind=int(events[0].kind),
            cause=cause_of(error),
        )

    async def _measure(self) -> None:
        async with asyncio.timeout(_STORE_S):
            self._metrics.behind(await self._outbox.backlog(), self._now_ms())

    def _failed(self, error: Exception) -> None:
        of_store = isinstance(error, WeirError)
        cause = error.message if isinstance(error, WeirError) else cause_of(error)
        if not self.last_error:
            _log.warning("ledger_write_failed", cause=cause, hint="events wait; see ledger_url")
        self.last_error = cause
        self._metrics.failed("store" if of_store else "database")
