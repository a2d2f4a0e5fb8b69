"""Client channels between services.

Own wrapper instead of grpc.aio client interceptors: an interceptor costs a task per call and
turns streaming calls into proxies with queues of their own. Timeout and metadata are all that
has to be added, and both can be set before the call starts.
"""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import grpc
from pydantic import SecretStr

from weir_core.rpc.deadline import call_timeout_s
from weir_core.rpc.metadata import outgoing_metadata
from weir_core.rpc.options import DEFAULT_MAX_MESSAGE_BYTES, channel_options

DEFAULT_TIMEOUT_S = 10.0


def open_channel(
    target: str,
    *,
    name: str,
    token: SecretStr | None = None,
    default_timeout_s: float = DEFAULT_TIMEOUT_S,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    credentials: grpc.ChannelCredentials | None = None,
    options: Sequence[tuple[str, int | str]] = (),
) -> "ServiceChannel":
    """Opens a channel to a service; nothing is sent until the first call.

    Args:
        target: `host:port`, or any gRPC target such as `dns:///scheduler:50051`.
        name: what the peer is called in errors and logs, such as `ratelimiter`.
        token: cluster secret, sent as `authorization: Bearer`; never printed.
        default_timeout_s: deadline of calls with a single response that were given none.
        max_message_bytes: largest message in either direction.
        credentials: TLS credentials; None for plain text.
        options: gRPC channel arguments that override the defaults.

    Every call carries `traceparent`, `x-request-id` and the token. Its deadline is the smaller
    of its timeout and what is left of the current request (`weir_core.rpc.deadline`); calls
    with streamed responses have no default timeout.
    """
    merged = channel_options(max_message_bytes=max_message_bytes, extra=options)
    raw = (
        grpc.aio.insecure_channel(target, options=merged)
        if credentials is None
        else grpc.aio.secure_channel(target, credentials, options=merged)
    )
    return ServiceChannel(raw, target=target, name=name, token=token, timeout_s=default_timeout_s)


class ServiceChannel(grpc.aio.Channel):
    """A `grpc.aio.Channel` that adds deadline and metadata; pass it to generated stubs."""

    def __init__(
        self,
        raw: grpc.aio.Channel,
        *,
        target: str,
        name: str,
        token: SecretStr | None,
        timeout_s: float,
    ) -> None:
        self.target = target
        self.name = name
        self._raw = raw
        self._token = token
        self._timeout_s = timeout_s

    def unary_unary(self, *args: Any, **kwargs: Any) -> Any:
        """As `grpc.aio.Channel.unary_unary`."""
        return self._prepared(self._raw.unary_unary(*args, **kwargs), self._timeout_s)

    def stream_unary(self, *args: Any, **kwargs: Any) -> Any:
        """As `grpc.aio.Channel.stream_unary`."""
        return self._prepared(self._raw.stream_unary(*args, **kwargs), self._timeout_s)

    def unary_stream(self, *args: Any, **kwargs: Any) -> Any:
        """As `grpc.aio.Channel.unary_stream`."""
        return self._prepared(self._raw.unary_stream(*args, **kwargs), None)

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:
        """As `grpc.aio.Channel.stream_stream`."""
        return self._prepared(self._raw.stream_stream(*args, **kwargs), None)

    def _prepared(self, multicallable: Any, timeout_s: float | None) -> Any:
        def call(
            *args: Any,
            timeout: float | None = None,
            metadata: Iterable[tuple[str, str | bytes]] | None = None,
            **kwargs: Any,
        ) -> Any:
            return multicallable(
                *args,
                timeout=call_timeout_s(timeout_s if timeout is None else timeout),
                metadata=outgoing_metadata(self._token, metadata or ()),
                **kwargs,
            )

        return call

    async def close(self, grace: float | None = None) -> None:
        """Cancels open calls after `grace` seconds and releases the connection."""
        await self._raw.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Connectivity now; starts connecting if asked to."""
        return self._raw.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Returns when the connectivity is no longer `last_observed_state`."""
        await self._raw.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Returns when the channel is connected; bound it with `asyncio.timeout`."""
        await self._raw.channel_ready()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.close()
