"""The shared stream to the ratelimiter: many calls at once, answered in any order."""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status

from weir.common.v1.lifecycle_pb2 import TraceContext
from weir.ratelimiter.v1.ratelimiter_service_pb2 import (
    AccountAnswer,
    AccountCall,
    MultiplexRequest,
    MultiplexResponse,
)
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceStub
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_status
from weir_core.rpc.framed import FramedOptions, FramedStream
from weir_core.telemetry.span_context import current_traceparent

_MOST_CALLS = 4_096


class NotCarried(Exception):
    """The stream did not bring an answer; whether the call was decided is unknown."""


class AccountStream:
    """One stream, kept connected; a ratelimiter that has no such stream is asked again later.

    Args:
        channel: to the ratelimiter, carrying the cluster secret.
        options: bounds of the stream.
    """

    def __init__(self, channel: grpc.aio.Channel, *, options: FramedOptions | None = None) -> None:
        stub = RateLimiterServiceStub(channel)
        self._waiting: dict[int, asyncio.Future[AccountAnswer]] = {}
        self._numbers = count(1)
        self.heard = False
        """Whether a ratelimiter has served the stream; it does once it knows its limits."""
        self._stream: FramedStream[AccountCall, MultiplexRequest, MultiplexResponse] = FramedStream(
            lambda: stub.Multiplex(),
            coalesce=_frame_of,
            ping=MultiplexRequest,
            on_frame=self._on_frame,
            on_lost=self._on_lost,
            name="the ratelimiter's stream",
            unavailable_as=Reason.LIMITER_UNAVAILABLE,
            options=options,
        )

    @property
    def ready(self) -> bool:
        """Whether a call would be taken."""
        return self._stream.connected and len(self._waiting) < _MOST_CALLS

    def start(self) -> None:
        """Begins to connect."""
        self._stream.start()

    async def stop(self) -> None:
        """Sends what is queued and disconnects."""
        await self._stream.stop()

    async def wait_connected(self, timeout_s: float) -> None:
        """Raises WeirError(LIMITER_UNAVAILABLE) when there is no stream in time."""
        await self._stream.wait_connected(timeout_s)

    async def call(self, name: str, request: Any, timeout_s: float) -> Any:
        """Makes one call and returns its response.

        Args:
            name: field of `AccountCall.request`, such as `reserve`.
            request: its message.
            timeout_s: until when the answer is of use.

        Raises:
            NotCarried: there is no stream, it is full, or it was lost meanwhile.
            WeirError: what the ratelimiter refused with; DEADLINE_EXCEEDED.
        """
        number = next(self._numbers)
        call = AccountCall(call=number, timeout_ms=max(1, round(timeout_s * 1_000)))
        getattr(call, name).CopyFrom(request)
        traceparent = current_traceparent()
        if traceparent:
            call.trace.CopyFrom(TraceContext(traceparent=traceparent))
        answer = await self._answer(number, call, timeout_s)
        if answer.WhichOneof("result") == "status":
            raise _refused(answer.status)
        return getattr(answer, name)

    async def _answer(self, number: int, call: AccountCall, timeout_s: float) -> AccountAnswer:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[AccountAnswer] = loop.create_future()
        self._waiting[number] = waiting
        timer = loop.call_later(timeout_s, _give_up, waiting)
        try:
            self._put(call)
            return await waiting
        except TimeoutError:
            raise WeirError(
                Reason.DEADLINE_EXCEEDED, f"the ratelimiter did not answer within {timeout_s:.3f} s"
            ) from None
        finally:
            timer.cancel()
            del self._waiting[number]

    def _put(self, call: AccountCall) -> None:
        try:
            self._stream.put_nowait(call)
        except WeirError as error:
            raise NotCarried(error.message) from error

    def _on_frame(self, frame: MultiplexResponse) -> None:
        self.heard = True
        for answer in frame.answers:
            waiting = self._waiting.get(answer.call)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def _on_lost(self, error: WeirError) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(NotCarried(error.message))


def _give_up(waiting: asyncio.Future[AccountAnswer]) -> None:
    if not waiting.done():
        waiting.set_exception(TimeoutError())


def _frame_of(calls: Sequence[AccountCall]) -> MultiplexRequest:
    return MultiplexRequest(calls=calls)


def _refused(serialised: bytes) -> WeirError:
    try:
        told = from_status(Status.FromString(serialised))
    except DecodeError:
        told = None
    return told or WeirError(
        Reason.LIMITER_UNAVAILABLE, "the ratelimiter refused without saying why"
    )
