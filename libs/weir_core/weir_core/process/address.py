"""`host:port` addresses: binding, and what to say when that fails."""

import socket

from weir_core.errors.startup import StartupError
from weir_core.host_port import join_address, split_address

__all__ = ["bind_failed", "check_free", "join_address", "listen", "split_address"]


def bind_failed(address: str, knob: str, why: str) -> StartupError:
    """The error for an address that cannot be bound."""
    return StartupError(f"cannot listen on {address}: {why}; change {knob}")


def listen(address: str, knob: str) -> socket.socket:
    """A listening TCP socket, port 0 for any. Raises StartupError naming address and knob."""
    host, port = split_address(address, knob)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1_024)
    except OSError as exc:
        raise bind_failed(address, knob, exc.strerror or str(exc)) from exc


def check_free(address: str, knob: str) -> None:
    """Raises StartupError when the address cannot be bound; says why, which gRPC does not."""
    listen(address, knob).close()
