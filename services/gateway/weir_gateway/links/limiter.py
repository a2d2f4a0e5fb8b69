"""The ratelimiter's client: deadlines, a retry where it is safe, errors as ours."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import grpc

from weir.ratelimiter.v1.ratelimiter_service_pb2 import (
    LIMITER_MODE_DEGRADED,
    ExtendRequest,
    ExtendResponse,
    Extension,
    ExtensionResult,
    RefundRequest,
    ReserveRequest,
    ReserveResponse,
    SettleRequest,
)
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceStub
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import STATUS_DETAILS, from_rpc_error
from weir_core.rpc.deadline import call_timeout_s
from weir_core.rpc.framed import FramedOptions
from weir_gateway.flow.reservation import Reservation
from weir_gateway.links.account_stream import AccountStream, NotCarried

# gRPC has no code of its own for a call that never left.
_NEVER_SENT = ("failed to connect to all addresses", "connections to all backends failing")

# Of the limiter, these say nothing about the request: it could not be asked.
_NO_ANSWER = (
    Reason.DEADLINE_EXCEEDED,
    Reason.CANCELLED,
    Reason.NOT_BUILT_YET,
    Reason.LIMITER_UNAVAILABLE,
)


class AnswerLost(WeirError):
    """LIMITER_UNAVAILABLE, where the ratelimiter may have decided all the same."""


class Limiter:
    """The calls of the token account that a request makes.

    They go over one shared stream, which costs a fraction of a call each; while there is none
    (the ratelimiter is away, or of a release without it), each is a call of its own.

    Args:
        channel: carries the cluster secret.
        timeout_s: of one call.
        options: bounds of the stream.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        *,
        timeout_s: float = 2.0,
        options: FramedOptions | None = None,
    ) -> None:
        self._stub = RateLimiterServiceStub(channel)
        self._stream = AccountStream(channel, options=options)
        self._timeout_s = timeout_s
        self.degraded = False
        """Its last answer said that it works without its store, on a share of the rates."""

    def start(self) -> None:
        """Begins to connect the stream; without it every call is one of its own."""
        self._stream.start()

    async def stop(self) -> None:
        """Ends the stream."""
        await self._stream.stop()

    @property
    def heard(self) -> bool:
        """Whether a ratelimiter has said that it can decide, at any time."""
        return self._stream.heard

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
        self.degraded = response.limiter_mode == LIMITER_MODE_DEGRADED
        return Reservation(
            id=response.reservation_id,
            record=response.record,
            prompt_tokens=response.reserved_prompt_tokens,
            output_tokens=response.reserved_output_tokens,
            limits=response.limits,
            degraded=self.degraded,
        )

    async def extend(self, extensions: Sequence[Extension]) -> Sequence[ExtensionResult]:
        """Renews leases and reports progress.

        Raises:
            WeirError: LIMITER_UNAVAILABLE and kin; nothing is known of any extension then.
        """
        request = ExtendRequest(extensions=extensions)
        response: ExtendResponse = await self._ask("extend", request, self._stub.Extend)
        return response.results

    async def settle(self, request: SettleRequest) -> None:
        """Charges what ran. Raises WeirError."""
        await self._ask("settle", request, self._stub.Settle)

    async def refund(self, request: RefundRequest) -> None:
        """Gives everything back. Raises WeirError."""
        await self._ask("refund", request, self._stub.Refund)

    async def _reserve_again(self, request: ReserveRequest, first: WeirError) -> ReserveResponse:
        try:
            return await self._reserve(request)
        except WeirError as second:
            if isinstance(first, AnswerLost) and second.reason is Reason.LIMITER_UNAVAILABLE:
                raise first from None
            raise

    async def _reserve(self, request: ReserveRequest) -> ReserveResponse:
        response: ReserveResponse = await self._ask("reserve", request, self._stub.Reserve)
        return response

    async def _ask(self, name: str, request: Any, unary: Callable[..., Awaitable[Any]]) -> Any:
        left_s = call_timeout_s(self._timeout_s)
        carried = self._stream.ready
        try:
            if carried:
                # Each of the four has the same effect once or twice, so that one whose answer
                # was lost with the stream can be asked again.
                with suppress(NotCarried):
                    return await self._stream.call(name, request, left_s or self._timeout_s)
            return await unary(request, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as error:
            told = from_rpc_error(
                error, unavailable_as=Reason.LIMITER_UNAVAILABLE, peer="the ratelimiter"
            )
            lost = carried or _may_have_been_decided(error)
        except WeirError as error:
            told = error
            lost = error.reason is Reason.DEADLINE_EXCEEDED
        raise _unavailable(told, lost=lost) if told.reason in _NO_ANSWER else told


def _unavailable(told: WeirError, *, lost: bool) -> WeirError:
    kind = AnswerLost if lost else WeirError
    return kind(
        Reason.LIMITER_UNAVAILABLE,
        f"limits cannot be checked at the moment: {told.message}",
        retry_after_s=told.retry_after_s or 1.0,
    )


def _may_have_been_decided(error: grpc.aio.AioRpcError) -> bool:
    """False for what never left, and for what the ratelimiter refused itself."""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return True
    answered = any(key == STATUS_DETAILS for key, _ in error.trailing_metadata() or ())
    return not answered and not (error.details() or "").startswith(_NEVER_SENT)
