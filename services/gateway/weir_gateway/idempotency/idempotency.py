"""Requests that are run once however often they are sent."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from weir.common.v1.lifecycle_pb2 import Outcome
from weir_core.errors import Reason, WeirError
from weir_core.repeating import Repeating
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.idempotency.claim_store import Claim, ClaimStore
from weir_gateway.idempotency.kept_answer import KeptAnswer
from weir_gateway.idempotency.metrics import IdempotencyMetrics
from weir_gateway.idempotency.scoped_key import ScopedKey

_log = get_logger(__name__)

_EXPIRY_S = 60.0
_SAVE_S = 2.0
_AGAIN_S = 1.0
_TRIES = 30
_STOP_S = 3.0
_NOT_KEPT = (Outcome.OUTCOME_CLIENT_GONE, Outcome.OUTCOME_CANCELLED)


class Idempotency:
    """Claims keys, keeps answers, renews what runs and removes what has expired.

    Args:
        store: of the claims.
        metrics: see there.
        lease_s: of a claim; renewed every third of it.
        most_bytes: of an answer that is kept.
        runs_on: a request goes on when its client leaves.
    """

    def __init__(
        self,
        store: ClaimStore,
        metrics: IdempotencyMetrics,
        *,
        lease_s: float,
        most_bytes: int,
        runs_on: bool,
    ) -> None:
        self.most_bytes = most_bytes
        self.runs_on = runs_on
        self._store = store
        self._metrics = metrics
        self._running: dict[str, Claim] = {}
        self._loops = (
            Repeating("idempotency_renewal", self._renew, lease_s / 3),
            Repeating("idempotency_expiry", self._expire, _EXPIRY_S),
        )
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Starts to renew and to remove."""
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        """Finishes what is being kept, in bounded time, and ends."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_STOP_S)
        for task in list(self._tasks):
            await end_task(task)
        for loop in self._loops:
            await loop.stop()

    async def claim(self, key: ScopedKey) -> Claim | KeptAnswer:
        """The right to run a request, to be closed by `close`; or the answer to replay.

        Raises:
            WeirError: IDEMPOTENCY_CONFLICT, IDEMPOTENCY_IN_PROGRESS, STORAGE_EXCEEDED, STATE_OFF or
                STATE_UNAVAILABLE.
        """
        try:
            found = await self._store.claim(key)
        except WeirError as error:
            self._metrics.refused(error)
            raise
        if isinstance(found, Claim):
            self._running[found.id] = found
        self._metrics.claimed(replayed=isinstance(found, KeptAnswer))
        return found

    async def close(self, claim: Claim, answer: KeptAnswer | None, *, ran: bool) -> None:
        """Keeps the answer of a request that ran; else frees its key. Idempotent.

        It returns once that is stored, or after a short time; then it is tried again in the
        background.

        Args:
            claim: of the key.
            answer: None for one that is too large.
            ran: see `has_run`.
        """
        if self._running.pop(claim.id, None) is None:
            return
        work = self._keep(claim, answer) if ran else self._free(claim)
        task = self.later(work)
        await asyncio.wait({task}, timeout=_SAVE_S)

    def later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs `work`, whoever leaves meanwhile; `stop` waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep(self, claim: Claim, answer: KeptAnswer | None) -> None:
        for _ in range(_TRIES):
            try:
                if not await self._store.keep(claim, answer):
                    _log.warning("idempotency_claim_lost", claim_id=claim.id)
            except WeirError as error:
                _log.warning("idempotency_not_kept", claim_id=claim.id, reason=error.reason)
                await asyncio.sleep(_AGAIN_S)
                with suppress(WeirError):
                    await self._store.renew([claim])
            else:
                return

    async def _free(self, claim: Claim) -> None:
        # If it cannot be freed its lease ends.
        with suppress(WeirError):
            await self._store.free(claim)

    async def _renew(self) -> None:
        await self._store.renew(list(self._running.values()))

    async def _expire(self) -> None:
        while await self._store.remove_expired():
            pass


def has_run(live: LiveRequest) -> bool:
    """Whether a request ran, and to an end that is not its client's or this gateway's leaving."""
    if not live.facts.ever_sent:
        return False
    if not live.ended.done():
        return True
    ending = live.ended.result()
    draining = ending.error is not None and ending.error.reason is Reason.DRAINING
    return not draining and ending.outcome not in _NOT_KEPT
