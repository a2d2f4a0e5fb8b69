"""Tells the shared store, once it answers again, what was decided without it."""

import asyncio
from collections.abc import Callable
from enum import StrEnum

from weir_core.errors import Reason, WeirError
from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.domain.reservation import State
from weir_ratelimiter.domain.settlement import OUTCOME_EXPIRED, Report
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.store.base import Ended, Limits
from weir_ratelimiter.store.degraded.local import LocalAccount
from weir_ratelimiter.store.degraded.metrics import DegradedMetrics
from weir_ratelimiter.store.degraded.pending import Pending, Refund, Settle
from weir_ratelimiter.store.degraded.pending_log import PendingLog
from weir_ratelimiter.store.degraded.shared import SharedStore

_AT_ONCE = 64
_SILENCE_MS = 3_600_000
"""Whoever was not heard of for so long runs nowhere: no request lasts an hour unheard."""

_log = get_logger(__name__)


class Told(StrEnum):
    """What became of one row."""

    DONE = "done"
    KNOWN = "known"
    CONFLICT = "conflict"
    GONE = "gone"
    KEPT = "kept"
    LATER = "later"


class Replay:
    """Works off a `PendingLog`. Every step may be repeated: the shared store goes by ids.

    A reservation that lapsed in the shared store, but lives here, is kept here until its caller
    ends it, which the shared store takes as a late settlement; so no stream is cut. One that is
    heard of no more is kept for an hour, as it may live with another ratelimiter, whose settlement
    must not find it settled by less; then it is settled by the progress that was told here.

    Args:
        shared: is told.
        local: knows what lives here.
        pending: what is to be told.
        limits_of: limits of a subject by key, as configured now; raises
            WeirError(LIMITER_UNAVAILABLE) before the directory has come.
        metrics: counts the rows.
        now_ms: the local account's clock.
    """

    def __init__(
        self,
        shared: SharedStore,
        local: LocalAccount,
        pending: PendingLog,
        limits_of: Callable[[Subject], Limits],
        metrics: DegradedMetrics,
        now_ms: Callable[[], int],
    ) -> None:
        self._shared = shared
        self._local = local
        self._pending = pending
        self._limits_of = limits_of
        self._metrics = metrics
        self._now_ms = now_ms
        self._kept: dict[str, Pending] = {}

    @property
    def caught_up(self) -> bool:
        """Whether the shared store knows all but what is kept here."""
        return len(self._pending) <= len(self._kept)

    async def run(self) -> None:
        """Tell all there is to tell, or as much as can be told now.

        Raises:
            WeirError: LIMITER_UNAVAILABLE if what is pending cannot be written.
        """
        for row in list(self._kept.values()):
            if self._pending.get(row.id) is not row or self._is_silent(row):
                del self._kept[row.id]
        rows = [row for row in self._pending.rows() if row.id not in self._kept]
        for start in range(0, len(rows), _AT_ONCE):
            told = await asyncio.gather(*map(self._told, rows[start : start + _AT_ONCE]))
            for row, outcome in zip(rows[start:], told, strict=False):
                self._note(row, outcome)
            if Told.LATER in told:
                return

    def _note(self, row: Pending, told: Told) -> None:
        if told is Told.LATER:
            return
        self._metrics.replayed(told)
        if told is Told.KEPT:
            self._kept[row.id] = row
        else:
            self._pending.drop(row)

    async def _told(self, row: Pending) -> Told:
        try:
            limits = self._limits_of(row.record.subject)
            if row.ended is None:
                return await self._tell_running(row, limits)
            return _told_end(await self._end(row, row.ended, limits))
        except WeirError as error:
            if error.reason is Reason.LIMITER_UNAVAILABLE:
                return Told.LATER
            _log.warning("replay_refused", reservation_id=row.id, cause=error.message)
            return Told.GONE

    async def _tell_running(self, row: Pending, limits: Limits) -> Told:
        extension = row.extension()
        try:
            await self._shared.call(lambda store: store.extend(row.record, extension, limits))
        except WeirError as error:
            if error.reason is not Reason.RESERVATION_EXPIRED:
                raise
            return await self._tell_lapsed(row, limits)
        return Told.DONE

    async def _tell_lapsed(self, row: Pending, limits: Limits) -> Told:
        if await self._has_ended(row):
            return Told.KNOWN
        if not row.dispatched and not await self._lives_here(row):
            return Told.KNOWN
        if not self._is_silent(row):
            return Told.KEPT
        ran = row.progress.at_least(Usage(prompt_tokens=row.record.prompt_tokens))
        report = Report(ran, Quality.ESTIMATED, OUTCOME_EXPIRED, row.lifecycle)
        ended = await self._shared.call(lambda store: store.settle(row.record, report, limits))
        return Told.KNOWN if ended.already else Told.DONE

    async def _has_ended(self, row: Pending) -> bool:
        """Whether somebody ended it in the shared store, not only the lapse of its leases."""
        tenant_id = row.record.subject.tenant_id
        found = await self._shared.call(lambda store: store.find(tenant_id, row.id))
        return found is not None and found.state in (State.SETTLED, State.REFUNDED)

    async def _lives_here(self, row: Pending) -> bool:
        return await self._local.holds(row.record.subject.tenant_id, row.id)

    def _is_silent(self, row: Pending) -> bool:
        return self._now_ms() - row.heard_ms >= _SILENCE_MS

    async def _end(self, row: Pending, end: Settle | Refund, limits: Limits) -> Ended:
        if isinstance(end, Settle):
            return await self._shared.call(
                lambda store: store.settle(row.record, end.report, limits)
            )
        return await self._shared.call(
            lambda store: store.refund(row.record, end.outcome, end.lifecycle, limits)
        )


def _told_end(ended: Ended) -> Told:
    if ended.conflict:
        return Told.CONFLICT
    return Told.KNOWN if ended.already else Told.DONE
