"""Client channels between services.

Own wrapper instead of grpc.aio client interceptors: an interceptor costs a task per call and
turns streaming calls into proxies with queues of their own. Timeout and metadata are all that
has to be added, and both can be set before the call starts.
"""

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

import grpc
from pydantic import SecretStr

from weir_core.rpc.deadline import call_timeout_s
from weir_core.rpc.metadata import outgoing_metadata
from weir_core.rpc.options import DEFAULT_MAX_MESSAGE_BYTES, channel_options

DEFAULT_TIMEOUT_S = 10.0


class ChannelTls(Protocol):
    """Who a client is and whom it trusts: `TlsIdentity`, `TrustedCa`.

    Attributes:
        peer_domain: a peer must be called NAME.DOMAIN; empty: by the host it is reached at.
        version: another number once `current` has found other certificates.
    """

    peer_domain: str
    version: int

    def current(self) -> object:
        """Looks for other certificates."""

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Of a client of this moment."""


def open_channel(
    target: str,
    *,
    name: str,
    token: SecretStr | None = None,
    default_timeout_s: float = DEFAULT_TIMEOUT_S,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    tls: ChannelTls | None = None,
    options: Sequence[tuple[str, int | str]] = (),
) -> "ServiceChannel":
    """Opens a channel to a service; nothing is sent until the first call.

    Args:
        target: `host:port`, or any gRPC target such as `dns:///scheduler:50051`.
        name: what the peer is called in errors and logs, such as `ratelimiter`.
        token: cluster secret, sent as `authorization: Bearer`; never printed.
        default_timeout_s: deadline of calls with a single response that were given none.
        max_message_bytes: largest message in either direction.
        tls: who the caller is and whom it trusts; None for plain text. When its certificates
            change, calls that begin use a new connection; those that run stay where they are.
        options: gRPC channel arguments that override the defaults.

    Every call carries `traceparent`, `x-request-id` and the token. Its deadline is the smaller
    of its timeout and what is left of the current request (`weir_core.rpc.deadline`); calls
    with streamed responses have no default timeout.
    """
    merged = channel_options(max_message_bytes=max_message_bytes, extra=options)
    if tls is None:
        connection = Connection(lambda: grpc.aio.insecure_channel(target, options=merged))
    else:
        if tls.peer_domain:
            merged.append(("grpc.ssl_target_name_override", f"{name}.{tls.peer_domain}"))
        connection = Connection(
            lambda: grpc.aio.secure_channel(target, tls.channel_credentials(), options=merged), tls
        )
    return ServiceChannel(
        connection, target=target, name=name, token=token, timeout_s=default_timeout_s
    )


class Connection:
    """The gRPC channel of the moment: another one when the certificates have changed.

    Channels of before are kept for the streams that run on them; one without streams holds no
    connection after gRPC's idle time.
    """

    def __init__(self, make: Callable[[], grpc.aio.Channel], tls: ChannelTls | None = None) -> None:
        self._make = make
        self._tls = tls
        self._version = tls.version if tls is not None else 0
        self._channel = make()
        self._before: list[grpc.aio.Channel] = []

    def current(self) -> grpc.aio.Channel:
        """For a call that begins now."""
        if self._tls is not None:
            self._tls.current()
            if self._tls.version != self._version:
                self._version = self._tls.version
                self._before.append(self._channel)
                self._channel = self._make()
        return self._channel

    async def close(self, grace: float | None) -> None:
        """Closes all."""
        for channel in (*self._before, self._channel):
            await channel.close(grace)


class ServiceChannel(grpc.aio.Channel):
    """A `grpc.aio.Channel` that adds deadline and metadata; pass it to generated stubs."""

    def __init__(
        self,
        connection: Connection,
        *,
        target: str,
        name: str,
        token: SecretStr | None,
        timeout_s: float,
    ) -> None:
        self.target = target
        self.name = name
        self._connection = connection
        self._token = token
        self._timeout_s = timeout_s

    def unary_unary(self, *args: Any, **kwargs: Any) -> Any:
        """As `grpc.aio.Channel.unary_unary`."""
        return self._prepared(lambda raw: raw.unary_unary(*args, **kwargs), self._timeout_s)

    def stream_unary(self, *args: Any, **kwargs: Any) -> Any:
        """As `grpc.aio.Channel.stream_unary`."""
        return self._prepared(lambda raw: raw.stream_unary(*args, **kwargs), self._timeout_s)

    def unary_stream(self, *args: Any, **kwargs: Any) -> Any:
        """As `grpc.aio.Channel.unary_stream`."""
        return self._prepared(lambda raw: raw.unary_stream(*args, **kwargs), None)

    def stream_stream(self, *args: Any, **kwargs: Any) -> Any:
        """As `grpc.aio.Channel.stream_stream`."""
        return self._prepared(lambda raw: raw.stream_stream(*args, **kwargs), None)

    def _prepared(self, make: Callable[[grpc.aio.Channel], Any], timeout_s: float | None) -> Any:
        raw = self._connection.current()
        multicallable = make(raw)

        def call(
            *args: Any,
            timeout: float | None = None,
            metadata: Iterable[tuple[str, str | bytes]] | None = None,
            **kwargs: Any,
        ) -> Any:
            nonlocal raw, multicallable
            if raw is not self._connection.current():
                raw = self._connection.current()
                multicallable = make(raw)
            return multicallable(
                *args,
                timeout=call_timeout_s(timeout_s if timeout is None else timeout),
                metadata=outgoing_metadata(self._token, metadata or ()),
                **kwargs,
            )

        return call

    async def close(self, grace: float | None = None) -> None:
        """Cancels open calls after `grace` seconds and releases the connections."""
        await self._connection.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Connectivity now; starts connecting if asked to."""
        return self._connection.current().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Returns when the connectivity is no longer `last_observed_state`."""
        await self._connection.current().wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Returns when the channel is connected; bound it with `asyncio.timeout`."""
        await self._connection.current().channel_ready()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.close()
