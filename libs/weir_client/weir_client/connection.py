"""A channel to a gateway, and calls over it with credentials, deadlines and retries."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeVar

import grpc

from weir_client.attempts import Attempts
from weir_client.errors import WeirClientError, from_rpc_error
from weir_client.retry import RetryPolicy
from weir_client.retry_budget import RetryBudget
from weir_client.trace import trace_metadata

Response = TypeVar("Response")
Response_co = TypeVar("Response_co", covariant=True)
Metadata = tuple[tuple[str, str], ...]

_MAX_MESSAGE_BYTES = 8 * 1024 * 1024
# Keepalive notices a dead server within 40 s; without the last two a reader that stops lets the
# server run megabytes ahead, so that its worker never slows down for it.
_OPTIONS: list[tuple[str, int]] = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", 32 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 65_536),
]


class Reading(Protocol[Response_co]):
    """A call whose responses are read one by one."""

    def __aiter__(self) -> AsyncIterator[Response_co]:
        """Its responses."""

    def cancel(self) -> bool:
        """Ends it."""


class Connection:
    """One channel; multiplexes.

    Args:
        target: `host:port`.
        api_key: key of the tenant's user.
        credentials: of TLS; None for plain text.
        retry: when calls are tried again.
        timeout_s: default deadline of a call with one response, retries included.
    """

    def __init__(
        self,
        target: str,
        api_key: str,
        *,
        credentials: grpc.ChannelCredentials | None,
        retry: RetryPolicy,
        timeout_s: float,
    ) -> None:
        self.channel = (
            grpc.aio.insecure_channel(target, options=_OPTIONS)
            if credentials is None
            else grpc.aio.secure_channel(target, credentials, options=_OPTIONS)
        )
        self._identity: Metadata = (("authorization", f"Bearer {api_key}"),)
        self._retry = retry
        self._budget = RetryBudget(retry)
        self._timeout_s = timeout_s

    @property
    def metadata(self) -> Metadata:
        """Of a call that is made now: who asks, and the trace that the caller is in."""
        return (*self._identity, *trace_metadata())

    def attempts(self, timeout_s: float) -> Attempts:
        """For a call that may take so long, retries included."""
        return Attempts(self._retry, self._budget, timeout_s)

    async def call(self, method: Callable[..., Awaitable[Response]], request: object) -> Response:
        """One response. Raises WeirClientError."""
        attempts = self.attempts(self._timeout_s)
        while True:
            left_s = attempts.begin()
            try:
                response = await method(request, metadata=self.metadata, timeout=left_s)
            except grpc.aio.AioRpcError as failure:
                error: WeirClientError = from_rpc_error(failure)
            else:
                attempts.succeeded()
                return response
            await attempts.wait_after(error)

    async def watch(
        self, method: Callable[..., Reading[Response]], request: object, timeout_s: float
    ) -> AsyncGenerator[Response]:
        """Responses of a stream that begins with how things are.

        It is opened again after a failure at any point, since nothing is lost by it. Raises
        WeirClientError.
        """
        attempts = self.attempts(timeout_s)
        while True:
            call = method(request, metadata=self.metadata, timeout=attempts.begin())
            try:
                async for response in call:
                    attempts.made = 1
                    yield response
            except grpc.aio.AioRpcError as failure:
                error = from_rpc_error(failure)
            else:
                attempts.succeeded()
                return
            finally:
                call.cancel()
            await attempts.wait_after(error)

    async def close(self) -> None:
        """Cancels what still runs."""
        await self.channel.close()
