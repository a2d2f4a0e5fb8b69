"""`host:port` addresses as text."""

import ipaddress

from weir_core.errors.startup import StartupError


def split_address(address: str, knob: str) -> tuple[str, int]:
    """`host:port` as a pair; IPv6 hosts stand in brackets. Raises StartupError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise StartupError(f"{knob} is {address!r}; it must be host:port with a port of 0 to 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether what goes to a `host:port` stays on this machine."""
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def join_address(host: str, port: int) -> str:
    """The pair as `host:port`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
