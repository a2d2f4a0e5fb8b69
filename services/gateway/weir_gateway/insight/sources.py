"""What other services know of one request, each asked in bounded time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc

from weir.common.v1.lifecycle_pb2 import Attempt, TerminalRecord
from weir.common.v1.subject_pb2 import Subject
from weir.ratelimiter.v1.ledger_service_pb2 import (
    LedgerRow,
    LedgerRowKind,
    ListRowsRequest,
    RowFilter,
)
from weir.ratelimiter.v1.ledger_service_pb2_grpc import LedgerServiceStub
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ExplainRequest, Reservation
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceStub
from weir.scheduler.v1.scheduler_service_pb2 import (
    QueuedRequest,
    WorkerView,
)
from weir.worker.v1.worker_service_pb2 import GetKvMapRequest, GetTerminalRecordRequest, KvMap
from weir.worker.v1.worker_service_pb2_grpc import WorkerServiceStub
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_rpc_error
from weir_gateway.links.scheduler_reader import SchedulerReader

_CALL_S, _KV_S = 1.5, 5.0
_PAGE, _MOST_PAGES = 1_000, 5
_T = TypeVar("_T")

Open = Callable[[str, str], grpc.aio.Channel]
"""A channel to `host:port` of a service of that name."""


class Sources:
    """Asks ratelimiter, ledger, scheduler and workers.

    Args:
        limiter: channel to the ratelimiter, which serves the ledger too.
        scheduler: the active one.
        open_channel: to a worker.
    """

    def __init__(
        self, limiter: grpc.aio.Channel, scheduler: SchedulerReader, open_channel: Open
    ) -> None:
        self._limiter = RateLimiterServiceStub(limiter)
        self._ledger = LedgerServiceStub(limiter)
        self._scheduler = scheduler
        self._open = open_channel

    async def reservation(self, subject: Subject, reservation_id: str) -> Reservation | None:
        """What holds the tokens of a request, or did lately. Raises WeirError."""
        request = ExplainRequest(
            subject=Subject(tenant_id=subject.tenant_id), reservation_id=reservation_id
        )
        try:
            answer = await _asked(self._limiter.Explain(request, timeout=_CALL_S), _LIMITER)
        except WeirError as error:
            if error.reason in (Reason.RESERVATION_NOT_FOUND, Reason.NOT_FOUND):
                return None
            raise
        return answer.reservation if answer.HasField("reservation") else None

    async def charge(self, request_id: str, tenant_id: str) -> LedgerRow | None:
        """The charge of a request; of any tenant where `tenant_id` is empty. Raises WeirError."""
        wanted = RowFilter(request_id=request_id, tenant_id=tenant_id)
        request = ListRowsRequest(filter=wanted, page_size=10)
        answer = await _asked(self._ledger.ListRows(request, timeout=_CALL_S), _LIMITER)
        charge = LedgerRowKind.LEDGER_ROW_KIND_CHARGE
        return next((row for row in answer.rows if row.kind == charge), None)

    async def queue_place(self, request_id: str, tenant_id: str) -> QueuedRequest | None:
        """Where a request waits; None where it does not any more. Raises WeirError."""
        token = ""
        for _ in range(_MOST_PAGES):
            answer = await self._scheduler.queue(tenant_id, _PAGE, token)
            for queued in answer.requests:
                if queued.request_id == request_id:
                    return queued
            token = answer.next_page_token
            if not token:
                return None
        raise WeirError(
            Reason.OVERLOADED, f"it waits behind the first {_PAGE * _MOST_PAGES} of its tenant"
        )

    async def workers(self) -> list[WorkerView]:
        """The workers as the scheduler sees them. Raises WeirError."""
        return await self._scheduler.workers()

    async def terminal(self, worker_id: str, request_id: str) -> TerminalRecord | None:
        """What a worker counted at the end of a request. Raises WeirError."""
        worker = await self.worker(worker_id)
        request = GetTerminalRecordRequest(attempt=Attempt(request_id=request_id))
        async with self._open(worker.registration.address, "worker") as channel:
            stub = WorkerServiceStub(channel)
            try:
                answer = await _asked(stub.GetTerminalRecord(request, timeout=_CALL_S), _WORKER)
            except WeirError as error:
                if error.reason is Reason.NOT_FOUND:
                    return None
                raise
        return answer.terminal

    async def kv_map(self, worker: WorkerView, first_block: int) -> KvMap:
        """The KV blocks of a worker. Raises WeirError: it does not answer."""
        request = GetKvMapRequest(first_block=first_block)
        async with self._open(worker.registration.address, "worker") as channel:
            stub = WorkerServiceStub(channel)
            answer = await _asked(stub.GetKvMap(request, timeout=_KV_S), _WORKER)
        return answer.map

    async def worker(self, worker_id: str) -> WorkerView:
        """A worker as the scheduler sees it. Raises WeirError: NOT_FOUND, or who did not answer."""
        found = [view for view in await self.workers() if view.registration.worker_id == worker_id]
        if not found:
            raise no_worker(worker_id)
        return found[0]


def no_worker(worker_id: str) -> WeirError:
    """The same whether there is none, or it is another tenant's."""
    return WeirError(
        Reason.NOT_FOUND, f"the scheduler knows no worker {worker_id}", field="worker_id"
    )


_LIMITER = (Reason.LIMITER_UNAVAILABLE, "the ratelimiter")
_WORKER = (Reason.NO_WORKER, "the worker")


async def _asked(call: Awaitable[_T], peer: tuple[Reason, str]) -> _T:
    try:
        async with asyncio.timeout(_KV_S + 1.0):
            return await call
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error, unavailable_as=peer[0], peer=peer[1]) from None
    except TimeoutError:
        raise WeirError(peer[0], f"{peer[1]} did not answer in time") from None
