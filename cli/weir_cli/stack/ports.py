"""Which port each service listens on."""

import socket
import sys
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


class PortClaims:
    """Chooses ports and keeps them for those who are to listen there, also while one starts again.

    A chosen port stays bound by a socket that does not listen. On Linux a server may listen
    beside it (both with SO_REUSEADDR, as servers have it), and the kernel gives the number to
    nobody who asks for any port. Elsewhere a server could not, and ports are free until then.
    """

    def __init__(self) -> None:
        self._held: dict[int, socket.socket] = {}

    def choose(self, wanted: Iterable[tuple[str, int]], *, required: str = "") -> dict[str, Port]:
        """Gives each name its wanted port, or a free one where that is taken.

        Args:
            wanted: name and port; port 0 always gets a free one.
            required: name whose port the user asked for and which gets no other.

        Raises CommandError when the required port is taken.
        """
        try:
            return {
                name: Port(name, self._claimed(number, name == required), number)
                for name, number in wanted
            }
        except BaseException:
            self.release()
            raise
        finally:
            if sys.platform != "linux":
                self.release()

    def release(self) -> None:
        """Gives all of them back."""
        for sock in self._held.values():
            sock.close()
        self._held.clear()

    def _claimed(self, number: int, required: bool) -> int:
        try:
            # One of our own does not listen, so that it could be bound again.
            sock = _bind(0 if number in self._held else number)
        except OSError as error:
            if required:
                raise CommandError(
                    f"cannot listen on {HOST}:{number}: {error.strerror}; choose another --port"
                ) from None
            sock = _bind(0)
        chosen = int(sock.getsockname()[1])
        self._held[chosen] = sock
        return chosen


def _bind(number: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # As servers bind: a port in TIME_WAIT is free, a port with a listener is not.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((HOST, number))
    except OSError:
        sock.close()
        raise
    return sock
