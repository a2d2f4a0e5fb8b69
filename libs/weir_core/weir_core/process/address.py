"""`host:port` addresses: parsing, binding, and what to say when binding fails."""

import socket

from weir_core.errors.startup import StartupError


def split_address(address: str, knob: str) -> tuple[str, int]:
    """`host:port` as a pair; IPv6 hosts stand in brackets. Raises StartupError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise StartupError(f"{knob} is {address!r}; it must be host:port with a port of 0 to 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)


def join_address(host: str, port: int) -> str:
    """The pair as `host:port`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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
