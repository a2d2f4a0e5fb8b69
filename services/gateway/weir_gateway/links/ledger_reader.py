"""Asks the ledger what was charged, and how far it is behind the account."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import grpc

from weir.ratelimiter.v1 import ledger_service_pb2 as wire
from weir.ratelimiter.v1.ledger_service_pb2_grpc import LedgerServiceStub
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error

if TYPE_CHECKING:
    from weir.ratelimiter.v1.ledger_service_pb2_grpc import LedgerServiceAsyncStub

_T = TypeVar("_T")

_CALL_S = 3.0


class LedgerReader:
    """Reads sums.

    Args:
        channel: to the ratelimiter, carrying the cluster secret.
    """

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: LedgerServiceAsyncStub = LedgerServiceStub(channel)

    async def sums(self, where: wire.RowFilter, by: Sequence[str] = ()) -> Sequence[wire.UsageSum]:
        """What was charged, with everything that was settled before the call. Raises WeirError."""
        request = wire.GetUsageRequest(filter=where, group_by=by)
        answer = await self._ask(lambda stub: stub.GetUsage(request, timeout=_CALL_S))
        return answer.sums

    async def status(self) -> wire.GetLedgerStatusResponse:
        """How far the ledger is behind. Raises WeirError."""
        request = wire.GetLedgerStatusRequest()
        return await self._ask(lambda stub: stub.GetLedgerStatus(request, timeout=_CALL_S))

    async def _ask(self, call: "Callable[[LedgerServiceAsyncStub], Awaitable[_T]]") -> _T:
        try:
            return await call(self._stub)
        except grpc.aio.AioRpcError as error:
            unavailable = Reason.LIMITER_UNAVAILABLE
            told = from_rpc_error(error, unavailable_as=unavailable, peer="the ratelimiter")
            raise told from None
