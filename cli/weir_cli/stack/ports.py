"""Which port each service listens on."""

import socket
from collections.abc import Iterable
from dataclasses import dataclass

from weir_cli.errors import CommandError

HOST = "127.0.0.1"
DEFAULT_PORT = 8000


@dataclass(frozen=True, slots=True)
class Port:
    """A port that a service is to have, and the one that it would have had."""

    name: str
    number: int
    wanted: int

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{HOST}:{self.number}"


def choose_ports(wanted: Iterable[tuple[str, int]], *, required: str = "") -> dict[str, Port]:
    """Gives each name its wanted port, or a free one where that is taken.

    Args:
        wanted: name and port; port 0 always gets a free one.
        required: name whose port the user asked for and which gets no other.

    Raises CommandError when the required port is taken.
    """
    held: list[socket.socket] = []
    try:
        ports = {}
        for name, number in wanted:
            ports[name] = Port(name, _held(held, number, name == required), number)
        return ports
    finally:
        for sock in held:
            sock.close()


def _held(held: list[socket.socket], number: int, required: bool) -> int:
    """Binds the port, or any, until all are chosen, so that no two names get the same."""
    try:
        held.append(_bind(number))
    except OSError as error:
        if required:
            raise CommandError(
                f"cannot listen on {HOST}:{number}: {error.strerror}; choose another --port"
            ) from None
        held.append(_bind(0))
    return int(held[-1].getsockname()[1])


def _bind(number: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # As servers bind: a port in TIME_WAIT is free, a port with a listener is not.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((HOST, number))
        sock.listen(1)
    except OSError:
        sock.close()
        raise
    return sock
