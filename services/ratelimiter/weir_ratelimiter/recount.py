"""Counts windows again whose limits were changed while they ran."""

import asyncio
from collections.abc import Callable, Iterable
from weakref import WeakValueDictionary

from weir_core.errors import WeirError
from weir_ratelimiter.continuity import Continuity
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.domain.reservation import LONGEST_TTL_MS
from weir_ratelimiter.seeding import Seeder

_INTERVAL_MS = 60_000
_MOST_WINDOWS = 100_000

Name = tuple[str, str, bool]
"""Key of a limit, id of a window, and whether the limit was seen to change."""


class Recount:
    """Asks the ledger what the store could not see.

    A budget that was out of the directory for a while, was shadow, or counted something else,
    missed what was charged meanwhile; one that is new misses what was open then. So a window in
    which its limit changed is brought up to the ledger, at once and then every minute until it
    ends. The store is only ever raised: it may know of charges that the ledger does not have yet.

    A process that starts did not see what was changed before. It counts the windows that ran
    then once, and again while requests of before may be open; if the ledger is away it goes on
    from what the store has.

    Args:
        seeder: does it.
        continuity: knows of changes.
        now_ms: wall time, Unix milliseconds.
    """

    def __init__(self, seeder: Seeder, continuity: Continuity, now_ms: Callable[[], int]) -> None:
        self._seeder = seeder
        self._continuity = continuity
        self._now_ms = now_ms
        self._counted_ms: dict[Name, int] = {}
        # A lock lives while somebody holds it or waits for it.
        self._locks: WeakValueDictionary[Name, asyncio.Lock] = WeakValueDictionary()

    async def bring_up(self, tenant_id: str, limits: Iterable[Limit]) -> None:
        """Count again what is due.

        Raises:
            WeirError: LIMITER_UNAVAILABLE if a window was not counted since its limit changed,
                and the ledger cannot be read.
        """
        for limit in limits:
            if limit.calendar is None:
                continue
            changed_ms = self._continuity.changed_ms(limit)
            since_ms = changed_ms or self._continuity.began_ms
            await self._bring_up(tenant_id, limit, since_ms, was_changed=bool(changed_ms))

    async def _bring_up(
        self, tenant_id: str, limit: Limit, since_ms: int, *, was_changed: bool
    ) -> None:
        assert limit.calendar is not None
        now_ms = self._now_ms()
        window = limit.calendar.window(now_ms)
        name = (limit.key, window.id, was_changed)
        until_ms = window.end_ms if was_changed else since_ms + LONGEST_TTL_MS
        if since_ms < window.start_ms or not self._is_due(name, since_ms, until_ms, now_ms):
            return
        async with self._locks.setdefault(name, asyncio.Lock()):
            if not self._is_due(name, since_ms, until_ms, now_ms):
                return
            is_first = self._counted_ms.get(name, -1) < since_ms
            try:
                await self._seeder.recount(tenant_id, limit, window)
            except WeirError:
                if is_first and was_changed:
                    raise
            self._note(name, now_ms)

    def _is_due(self, name: Name, since_ms: int, until_ms: int, now_ms: int) -> bool:
        counted_ms = self._counted_ms.get(name, -1)
        return counted_ms < since_ms or (
            now_ms >= counted_ms + _INTERVAL_MS and now_ms < until_ms + _INTERVAL_MS
        )

    def _note(self, name: Name, now_ms: int) -> None:
        if len(self._counted_ms) >= _MOST_WINDOWS:
            self._counted_ms.clear()
        self._counted_ms[name] = now_ms
