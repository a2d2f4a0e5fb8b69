"""The ratelimiter's client: deadlines, a retry where it is safe, errors as ours."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import grpc

from weir.ratelimiter.v1.ratelimiter_service_pb2 import (
    ExtendRequest,
    Extension,
    ExtensionResult,
    LimiterMode,
    LimitStatus,
    RefundRequest,
    ReserveRequest,
    ReserveResponse,
    SettleRequest,
)
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceStub
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import STATUS_DETAILS, from_rpc_error

T = TypeVar("T")

# gRPC has no code of its own for a call that never left.
_NEVER_SENT = ("failed to connect to all addresses", "connections to all backends failing")

# Of the limiter, these say nothing about the request: it could not be asked.
_NO_ANSWER = (Reason.DEADLINE_EXCEEDED, Reason.CANCELLED, Reason.NOT_BUILT_YET)


class AnswerLost(WeirError):
    """LIMITER_UNAVAILABLE, where the ratelimiter may have decided all the same."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """An admission; `record` is echoed to the ratelimiter, tokens are as debited."""

    id: str
    record: bytes
    prompt_tokens: int
    output_tokens: int
    limits: Sequence[LimitStatus]
    degraded: bool


class Limiter:
    """The calls of the token account that a request makes.

    Args:
        channel: carries the cluster secret.
        timeout_s: of one call.
    """

    def __init__(self, channel: grpc.aio.Channel, *, timeout_s: float = 2.0) -> None:
        self._stub = RateLimiterServiceStub(channel)
        self._timeout_s = timeout_s

    async def reserve(self, request: ReserveRequest) -> Reservation:
        """Debits a request; asks a second time, which is safe, when nobody answered.

        Raises:
            WeirError: what the ratelimiter refused with, or LIMITER_UNAVAILABLE.
            AnswerLost: it may have been reserved.
        """
        try:
            response = await self._reserve(request)
        except WeirError as error:
            if error.reason is not Reason.LIMITER_UNAVAILABLE:
                raise
            response = await self._reserve_again(request, error)
        return Reservation(
            id=response.reservation_id,
            record=response.record,
            prompt_tokens=response.reserved_prompt_tokens,
            output_tokens=response.reserved_output_tokens,
            limits=response.limits,
            degraded=response.limiter_mode == LimiterMode.LIMITER_MODE_DEGRADED,
        )

    async def extend(self, extensions: Sequence[Extension]) -> Sequence[ExtensionResult]:
        """Renews leases and reports progress.

        Raises:
            WeirError: LIMITER_UNAVAILABLE and kin; nothing is known of any extension then.
        """
        request = ExtendRequest(extensions=extensions)
        response = await _answer(self._stub.Extend(request, timeout=self._timeout_s))
        return response.results

    async def settle(self, request: SettleRequest) -> None:
        """Charges what ran. Raises WeirError."""
        await _answer(self._stub.Settle(request, timeout=self._timeout_s))

    async def refund(self, request: RefundRequest) -> None:
        """Gives everything back. Raises WeirError."""
        await _answer(self._stub.Refund(request, timeout=self._timeout_s))

    async def _reserve_again(self, request: ReserveRequest, first: WeirError) -> ReserveResponse:
        try:
            return await self._reserve(request)
        except WeirError as second:
            if isinstance(first, AnswerLost) and second.reason is Reason.LIMITER_UNAVAILABLE:
                raise first from None
            raise

    async def _reserve(self, request: ReserveRequest) -> ReserveResponse:
        return await _answer(self._stub.Reserve(request, timeout=self._timeout_s))


async def _answer(call: Awaitable[T]) -> T:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        told = from_rpc_error(
            error, unavailable_as=Reason.LIMITER_UNAVAILABLE, peer="the ratelimiter"
        )
        lost = _may_have_been_decided(error)
    if told.reason in _NO_ANSWER or told.reason is Reason.LIMITER_UNAVAILABLE:
        kind = AnswerLost if lost else WeirError
        raise kind(
            Reason.LIMITER_UNAVAILABLE,
            f"limits cannot be checked at the moment: {told.message}",
            retry_after_s=1.0,
        )
    raise told


def _may_have_been_decided(error: grpc.aio.AioRpcError) -> bool:
    """False for what never left, and for what the ratelimiter refused itself."""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return True
    answered = any(key == STATUS_DETAILS for key, _ in error.trailing_metadata() or ())
    return not answered and not (error.details() or "").startswith(_NEVER_SENT)
