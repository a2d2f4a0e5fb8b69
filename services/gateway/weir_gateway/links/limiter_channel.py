"""The channel to the ratelimiter, or to several that share a store."""

import ipaddress

from pydantic import SecretStr

from weir_core.errors.startup import StartupError
from weir_core.process.address import join_address, split_address
from weir_core.rpc.channel import ServiceChannel, open_channel
from weir_core.tls.identity import TlsIdentity

_KNOB = "ratelimiter_address"
_OPTIONS: tuple[tuple[str, int | str], ...] = (
    # Calls go round those that are connected: one that died is passed over at once.
    ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}]}'),
    # Requests are refused while none is connected.
    ("grpc.max_reconnect_backoff_ms", 500),
)


def open_limiter_channel(
    address: str, token: SecretStr, tls: TlsIdentity | None = None
) -> ServiceChannel:
    """Opens a channel that uses every ratelimiter of `address` in turn.

    Args:
        address: `host:port`; several `IP:port`, separated by commas; or a gRPC target such as
            `dns:///ratelimiter:8002`, of which every address is used.
        token: cluster secret.
        tls: see `open_channel`.

    Raises:
        StartupError: it is none of these.
    """
    return open_channel(target(address), name="ratelimiter", token=token, tls=tls, options=_OPTIONS)


def target(address: str) -> str:
    """The gRPC target of `open_limiter_channel`'s address. Raises StartupError."""
    if "://" in address or address.startswith("unix:"):
        return address
    parts = [part.strip() for part in address.split(",")]
    if len(parts) == 1:
        return join_address(*split_address(parts[0], _KNOB))
    hosts = [split_address(part, _KNOB) for part in parts]
    versions = {_version(host) for host, _ in hosts}
    if versions == {4} or versions == {6}:
        joined = ",".join(join_address(host, port) for host, port in hosts)
        return f"ipv{versions.pop()}:{joined}"
    raise StartupError(
        f"{_KNOB} is {address!r}; several must be IP addresses of one version; for a name with "
        "several addresses write dns:///name:port"
    )


def _version(host: str) -> int:
    """4 or 6; 0 for a name."""
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0
