"""Whether the process behind an address has ended."""

import asyncio
import socket

_CONNECT_S = 0.5


async def refuses(address: str) -> bool:
    """Whether nobody listens at `host:port`: its machine answers, and its process has ended.

    A process that stands still still listens, and a network that fails answers nothing: both are
    no refusal. Takes half a second at most.
    """
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_CONNECT_S):
            found = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
            told = [await _refused(str(where[0]), int(where[1])) for *_, where in found]
    except (OSError, ValueError):
        return False
    return bool(told) and all(told)


async def _refused(host: str, port: int) -> bool:
    """Raises OSError: it cannot be told."""
    try:
        _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False
