"""Carries the batches of all tenants on in this gateway, as others do in theirs."""

import asyncio
from collections import Counter
from contextlib import suppress

from weir_core.errors import WeirError
from weir_core.repeating import Repeating
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_gateway.batches.batch_store import BatchStore
from weir_gateway.batches.lease import BatchLease, BatchLeases, LeaseLost
from weir_gateway.batches.steps import BatchSteps
from weir_gateway.state.state import State

_log = get_logger(__name__)

_AT_ONCE = 4
_OF_A_TENANT = 2
_POLL_S = 0.5
_FAILED_MS = 2_000
_BROKEN_MS = 30_000
_STOP_S = 2.0
_SWEEP_S = 3_600.0


class BatchDriver:
    """Takes leases of batches that are due, a few at once, and makes their steps.

    Args:
        state: the database.
        leases, steps, store: see there.
    """

    def __init__(
        self, state: State, leases: BatchLeases, steps: BatchSteps, store: BatchStore
    ) -> None:
        self._state = state
        self._leases = leases
        self._steps = steps
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._loops = (
            Repeating("batches", self._look, self._wait),
            Repeating("batch_sweep", store.sweep, _SWEEP_S),
        )
        self._news = asyncio.Event()

    def start(self) -> None:
        """Begins to look for batches."""
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        """Ends; others find batches where they are."""
        for loop in self._loops:
            await loop.stop()
        for task in list(self._tasks):
            await end_task(task)

    def wake(self) -> None:
        """There is news: look at once."""
        self._news.set()

    async def _look(self) -> None:
        self._news.clear()
        while len(self._tasks) < _AT_ONCE and await self._take():
            pass

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_POLL_S):
                await self._news.wait()

    async def _take(self) -> bool:
        held = Counter(self._tasks.values())
        busy = [tenant for tenant, number in held.items() if number >= _OF_A_TENANT]
        taken = await self._leases.take(without=busy)
        if taken is None:
            return False
        lease, tenant_id = taken
        task = asyncio.create_task(self._carry_on(lease), name=lease.batch_id)
        self._tasks[task] = tenant_id
        task.add_done_callback(self._done)
        return True

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._news.set()

    async def _carry_on(self, lease: BatchLease) -> None:
        """Makes steps until one is to be waited for, then gives the lease back."""
        wait_ms = 0
        try:
            while wait_ms == 0:
                batch = await self._leases.look(lease)
                if batch is None or batch.state.ended:
                    break
                wait_ms = await self._steps.advance(batch, lease)
        except LeaseLost:
            wait_ms = 0
        except WeirError as error:
            _log.warning("batch_step_failed", batch_id=lease.batch_id, reason=error.reason)
            wait_ms = _FAILED_MS
        except Exception as error:
            _log.error("batch_step_broken", batch_id=lease.batch_id, exc_info=error)
            wait_ms = _BROKEN_MS
        finally:
            await self._give_back(lease, wait_ms)

    async def _give_back(self, lease: BatchLease, wait_ms: int) -> None:
        try:
            async with asyncio.timeout(_STOP_S), self._state.writing() as connection:
                await lease.give_back(connection, in_ms=wait_ms)
        except (WeirError, TimeoutError) as error:
            _log.warning("batch_lease_left_to_lapse", batch_id=lease.batch_id, error=str(error))
