"""Tells the store how far windows were used that it does not know."""

import asyncio
from collections.abc import Iterable

from weir_core.errors import Reason, WeirError
from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.budget_source import BudgetSource
from weir_ratelimiter.continuity import Continuity
from weir_ratelimiter.domain.calendar import Window
from weir_ratelimiter.domain.change import Count, WindowMove
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.store.base import Store

_DEADLINE_S = 2.0

_log = get_logger(__name__)


class Seeder:
    """Seeds windows, each once, however many requests wait for it.

    One that began while everything was in order (see `Continuity`) starts with 0; the
    `BudgetSource` is asked of any other.
    """

    def __init__(self, store: Store, source: BudgetSource, continuity: Continuity) -> None:
        self._store = store
        self._source = source
        self._continuity = continuity
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def seed(self, tenant_id: str, unseeded: Iterable[tuple[Limit, Window]]) -> None:
        """Have the store know these windows of limits that apply to a tenant.

        Raises:
            WeirError: LIMITER_UNAVAILABLE if the use of one cannot be read within 2 s: budgets
                fail closed. A shadow window counts from zero then.
        """
        tasks = [self._task(tenant_id, limit, window) for limit, window in unseeded]
        await asyncio.gather(*map(asyncio.shield, tasks))

    async def recount(self, tenant_id: str, limit: Limit, window: Window) -> None:
        """Raise a window that the store knows to what the ledger has of it.

        Raises:
            WeirError: as `seed`.
        """
        used = await self._used(tenant_id, limit, window)
        move = WindowMove(limit.key, window.id, Count(used, 0))
        await self._store.seed(tenant_id, [move], at_least=True)

    def _task(self, tenant_id: str, limit: Limit, window: Window) -> asyncio.Task[None]:
        name = (limit.key, window.id)
        task = self._running.get(name)
        if task is None:
            task = self._running[name] = asyncio.create_task(self._seed(tenant_id, limit, window))
            task.add_done_callback(lambda done: self._forget(name, done))
        return task

    def _forget(self, name: tuple[str, str], done: asyncio.Task[None]) -> None:
        del self._running[name]
        if not done.cancelled():
            # Whoever waited has it; when all have left, nobody is to be told of it.
            done.exception()

    async def _seed(self, tenant_id: str, limit: Limit, window: Window) -> None:
        unused = await self._continuity.is_unused(limit, window)
        used = 0 if unused else await self._used(tenant_id, limit, window)
        move = WindowMove(limit.key, window.id, Count(used, 0))
        await self._store.seed(tenant_id, [move])

    async def _used(self, tenant_id: str, limit: Limit, window: Window) -> int:
        try:
            async with asyncio.timeout(_DEADLINE_S):
                return await self._source.used(tenant_id, limit, window)
        except (WeirError, TimeoutError) as error:
            _log.warning("seed_failed", limit=limit.key, window=window.id, cause=str(error))
            if limit.shadow:
                return 0
            raise unseeded(limit, window) from error


def unseeded(limit: Limit, window: Window) -> WeirError:
    """Why nothing is admitted against a budget whose use is not known."""
    return WeirError(
        Reason.LIMITER_UNAVAILABLE,
        f"the use of {limit.key} in {window.id} cannot be read from the ledger yet; "
        "nothing is admitted against a budget until it is known",
        retry_after_s=1.0,
    )
