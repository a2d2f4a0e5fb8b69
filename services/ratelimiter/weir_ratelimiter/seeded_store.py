"""A store that is told first how far windows were used that it does not know."""

import contextlib
from collections.abc import Callable, Sequence

from weir_core.errors import WeirError
from weir_ratelimiter.budget_source import BudgetSource
from weir_ratelimiter.continuity import Continuity
from weir_ratelimiter.domain.adjustment import Adjustment
from weir_ratelimiter.domain.admission import ReserveCommand
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.recount import Recount
from weir_ratelimiter.seeding import Seeder, unseeded
from weir_ratelimiter.store.base import Adjusted, LimitState, Reserved, Store


class SeededStore:
    """The calls of `Store` that depend on what was used before.

    Args:
        store: the account.
        budgets: what windows were used for before the store knew them.
        now_ms: wall time, Unix milliseconds.

    Attributes:
        continuity: to be told of the directory, and to be kept watching the store.
    """

    def __init__(self, store: Store, budgets: BudgetSource, now_ms: Callable[[], int]) -> None:
        self._store = store
        self.continuity = Continuity(store, now_ms)
        self._seeder = Seeder(store, budgets, self.continuity)
        self._recount = Recount(self._seeder, self.continuity, now_ms)

    async def reserve(self, command: ReserveCommand, *, dry_run: bool) -> Reserved:
        """See `Store.reserve`; every window is known.

        Raises:
            WeirError: also LIMITER_UNAVAILABLE if the use of a budget cannot be read.
        """
        await self._recount.bring_up(command.subject.tenant_id, command.limits)
        reserved = await self._store.reserve(command, dry_run=dry_run)
        # A second round is for a window that begins while the first is seeded.
        for _ in range(2):
            if not reserved.unseeded:
                break
            await self._seeder.seed(command.subject.tenant_id, reserved.unseeded)
            reserved = await self._store.reserve(command, dry_run=dry_run)
        for limit, window in reserved.unseeded:
            raise unseeded(limit, window)
        if reserved.degraded and reserved.reservation is not None:
            self.continuity.lent(command.limits)
        return reserved

    async def states(self, tenant_id: str, limits: Sequence[Limit]) -> Sequence[LimitState]:
        """See `Store.states`; a window whose use cannot be read stays unseeded."""
        with contextlib.suppress(WeirError):
            await self._recount.bring_up(tenant_id, limits)
        states = await self._store.states(tenant_id, limits)
        unknown = [(s.limit, s.unseeded) for s in states if s.unseeded is not None]
        if not unknown:
            return states
        with contextlib.suppress(WeirError):
            await self._seeder.seed(tenant_id, unknown)
        return await self._store.states(tenant_id, limits)

    async def adjust(self, adjustment: Adjustment) -> Adjusted:
        """See `Store.adjust`. Raises as `reserve`."""
        tenant_id, limit = adjustment.subject.tenant_id, adjustment.limit
        (state,) = await self._store.states(tenant_id, [limit])
        if state.unseeded is not None:
            await self._seeder.seed(tenant_id, [(limit, state.unseeded)])
        return await self._store.adjust(adjustment)
