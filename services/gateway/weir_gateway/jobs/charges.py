"""Charges of ended jobs that are written down, but may not have been made.

The end of a job and what it costs are written in one transaction; then the ratelimiter is told.
It charges a request once, however often it is told, so that whoever finds a charge written down
sends it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select, update

from weir.ratelimiter.v1.ratelimiter_service_pb2 import SettleRequest
from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.telemetry.logs import get_logger
from weir_gateway.flow.unheard import NOT_HEARD
from weir_gateway.jobs.tables import jobs
from weir_gateway.links.limiter import Limiter
from weir_gateway.metrics import GatewayMetrics
from weir_gateway.state.state import State

_log = get_logger(__name__)

_AGAIN_MS = 15_000


@dataclass(frozen=True, slots=True)
class Charge:
    """A serialised SettleRequest of a job."""

    job_id: str
    message: bytes


class JobCharges:
    """Makes charges, and takes note.

    Args:
        state: the database.
        limiter: told of them.
        metrics: counts those that the ratelimiter refuses for good.
        clock: wall time.
    """

    def __init__(
        self, state: State, limiter: Limiter, metrics: GatewayMetrics, clock: Clock
    ) -> None:
        self._state = state
        self._limiter = limiter
        self._metrics = metrics
        self._clock = clock

    async def make(self, charge: Charge) -> bool:
        """Sends one charge; False if it was not heard, and is to be sent again.

        Raises:
            WeirError: STATE_UNAVAILABLE: it was heard, but will be sent again all the same.
        """
        try:
            await self._limiter.settle(SettleRequest.FromString(charge.message))
        except WeirError as error:
            if error.reason in NOT_HEARD:
                return False
            # Nothing will change its mind: it no longer knows the reservation.
            self._metrics.unsettled()
            _log.error("job_not_charged", job_id=charge.job_id, reason=error.reason)
        async with self._state.writing() as connection:
            await connection.execute(
                update(jobs).where(jobs.c.id == charge.job_id).values(charge=b"", charge_due_ms=0)
            )
        return True

    async def take_due(self, most: int = 100) -> Sequence[Charge]:
        """Charges whose time has come; others leave them alone for a while."""
        now_ms = self._clock.now_ms()
        is_due = jobs.c.charge_due_ms.between(1, now_ms)
        async with self._state.reading() as connection:
            if (await connection.execute(select(jobs.c.id).where(is_due).limit(1))).first() is None:
                return []
        due = (
            select(jobs.c.id)
            .where(is_due)
            .order_by(jobs.c.charge_due_ms)
            .limit(most)
            .with_for_update(skip_locked=True)
        )
        taken = (
            update(jobs)
            .values(charge_due_ms=now_ms + _AGAIN_MS)
            .returning(jobs.c.id, jobs.c.charge)
        )
        async with self._state.writing() as connection:
            ids = list((await connection.execute(due)).scalars())
            found = await connection.execute(taken.where(jobs.c.id.in_(ids)))
            return [Charge(job_id, message) for job_id, message in found]
