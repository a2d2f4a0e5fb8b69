"""Asks the scheduler and the ratelimiter how they do."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import grpc

from weir.common.v1.subject_pb2 import Subject
from weir.gateway.v1.history_service_pb2 import PartsSample, PoolSample, TenantLimits
from weir.ratelimiter.v1.ledger_service_pb2 import (
    GetLedgerStatusRequest,
    GetLedgerStatusResponse,
)
from weir.ratelimiter.v1.ledger_service_pb2_grpc import LedgerServiceStub
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ExplainRequest
from weir.scheduler.v1 import scheduler_service_pb2 as scheduler
from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.leader_channels import LeaderChannels
from weir_gateway.links.account_reader import AccountReader

_CALL_S = 3.0

_Fleet = tuple[
    scheduler.ListWorkersResponse,
    scheduler.GetPoolStatusResponse,
    scheduler.GetScalingSignalsResponse,
]


@dataclass(frozen=True, slots=True)
class FarLook:
    """What the far parts said at one moment; nothing of one that did not answer."""

    parts: PartsSample
    pools: list[PoolSample] = field(default_factory=list)
    workers: list[scheduler.WorkerView] = field(default_factory=list)
    depths: list[scheduler.QueueDepth] = field(default_factory=list)
    limits: list[TenantLimits] = field(default_factory=list)


class FarReader:
    """Reads the active scheduler and a ratelimiter.

    Args:
        schedulers: where they are.
        ratelimiter: carries the cluster secret, as they do.
        degraded: whether the ratelimiter works without its store, as its last answer said.
        unheard: calls to it that are repeated until they are heard.
        follows: looks for the active scheduler itself, as nobody else does on these channels.
    """

    def __init__(
        self,
        schedulers: LeaderChannels,
        ratelimiter: grpc.aio.Channel,
        *,
        degraded: Callable[[], bool],
        unheard: Callable[[], int],
        follows: bool = False,
    ) -> None:
        self._schedulers = schedulers
        self._ledger = LedgerServiceStub(ratelimiter)
        self._accounts = AccountReader(ratelimiter, timeout_s=_CALL_S)
        self._degraded = degraded
        self._unheard = unheard
        self._tries = len(schedulers.addresses) if follows else 1

    async def look(self, tenants: Sequence[str] = ()) -> FarLook:
        """Everything of now, within seconds; raises nothing of what others fail with.

        Args:
            tenants: whose limits are asked for too.
        """
        parts = PartsSample(ratelimiter_degraded=self._degraded(), unheard_calls=self._unheard())
        known = await self._all_limits(tenants)
        fleet, ledger = await asyncio.gather(
            self._fleet(), self._ledger_status(), return_exceptions=True
        )
        if isinstance(ledger, GetLedgerStatusResponse):
            parts.ledger.CopyFrom(ledger)
        else:
            parts.ratelimiter_error = _why(ledger)
        if isinstance(fleet, BaseException):
            parts.scheduler_error = _why(fleet)
            return FarLook(parts, limits=known)
        workers, status, scaling = fleet
        return FarLook(
            parts=parts,
            pools=_pools(status.pools, scaling.pools),
            workers=list(workers.workers),
            depths=list(status.depths),
            limits=known,
        )

    async def _fleet(self) -> _Fleet:
        for left in reversed(range(self._tries)):
            try:
                return await self._ask_scheduler()
            except WeirError as error:
                if self._tries > 1:
                    self._schedulers.lost(error)
                if not left:
                    raise
        raise AssertionError("there is at least one address")

    async def _ask_scheduler(self) -> _Fleet:
        stub = SchedulerServiceStub(self._schedulers.current)
        try:
            return (
                await stub.ListWorkers(scheduler.ListWorkersRequest(), timeout=_CALL_S),
                await stub.GetPoolStatus(scheduler.GetPoolStatusRequest(), timeout=_CALL_S),
                await stub.GetScalingSignals(scheduler.GetScalingSignalsRequest(), timeout=_CALL_S),
            )
        except grpc.aio.AioRpcError as error:
            unavailable = Reason.SCHEDULER_UNAVAILABLE
            raise from_rpc_error(error, unavailable_as=unavailable, peer="the scheduler") from None

    async def _all_limits(self, tenants: Sequence[str]) -> list[TenantLimits]:
        """Of those that could be asked."""
        told = await asyncio.gather(
            *(self._limits(tenant) for tenant in tenants), return_exceptions=True
        )
        return [one for one in told if isinstance(one, TenantLimits)]

    async def _limits(self, tenant_id: str) -> TenantLimits:
        """Raises WeirError: it is gone, or the ratelimiter is away."""
        request = ExplainRequest(subject=Subject(tenant_id=tenant_id))
        told = await self._accounts.explain(request)
        own = [limit for limit in told.limits if limit.layer == "tenant"]
        return TenantLimits(tenant_id=tenant_id, limits=own)

    async def _ledger_status(self) -> GetLedgerStatusResponse:
        try:
            return await self._ledger.GetLedgerStatus(GetLedgerStatusRequest(), timeout=_CALL_S)
        except grpc.aio.AioRpcError as error:
            unavailable = Reason.LIMITER_UNAVAILABLE
            told = from_rpc_error(error, unavailable_as=unavailable, peer="the ratelimiter")
            raise told from None


def _pools(
    statuses: Iterable[scheduler.PoolStatus], scalings: Iterable[scheduler.PoolScaling]
) -> list[PoolSample]:
    known = {(one.model, one.pool): one for one in scalings}
    return [_pool(status, known.get((status.model, status.pool))) for status in statuses]


def _pool(status: scheduler.PoolStatus, scaling: scheduler.PoolScaling | None) -> PoolSample:
    if scaling is None:
        return PoolSample(status=status)
    return PoolSample(status=status, signals=scaling.signals, min_workers=scaling.min_workers)


def _why(error: BaseException) -> str:
    """For people. A fault of our own is not one of theirs."""
    if isinstance(error, WeirError):
        return f"{error.reason}: {error.message}"
    raise error
