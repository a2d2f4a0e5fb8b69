"""Connects to the address that was looked at, whatever its name means by then."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpcore2

from weir_gateway.webhooks.addresses import is_public

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class Refused(Exception):
    """A webhook may not be sent there; the message says why."""


# Of their own: a name server that a tenant lets hang must not take the threads of requests.
_threads = ThreadPoolExecutor(32, thread_name_prefix="webhook-names")


async def resolve(host: str, port: int) -> Sequence[str]:
    """Addresses of a name, or the one that it spells. Raises OSError, UnicodeError for no name."""
    loop = asyncio.get_running_loop()
    look = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await loop.run_in_executor(_threads, look)
    return [str(entry[4][0]) for entry in found]


class Connector(httpcore2.AsyncNetworkBackend):
    """Resolves, looks at the addresses, and connects to one of them.

    Args:
        private: whether addresses of private networks are allowed.
        resolve: finds addresses.
    """

    def __init__(self, *, private: bool, resolve: Resolve = resolve) -> None:
        self._private = private
        self._resolve = resolve
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A connection to a public address of `host`.

        Raises:
            Refused: it has none, or no address at all.
            httpcore2.ConnectError: it does not answer.
        """
        try:
            found = await self._resolve(host, port)
        except OSError as error:
            raise Refused(f"the name of its host has no address: {error.strerror}") from None
        except UnicodeError:
            raise Refused("the name of its host is none") from None
        allowed = [address for address in found if self._private or is_public(address)]
        if not allowed:
            raise Refused("its host is none of the public Internet")
        return await self._inner.connect_tcp(
            allowed[0], port, timeout, local_address, socket_options
        )

    async def connect_unix_socket(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        """Refuses."""
        raise Refused("webhooks go over networks alone")

    async def sleep(self, seconds: float) -> None:
        """Waits, for retries of the pool."""
        await asyncio.sleep(seconds)
