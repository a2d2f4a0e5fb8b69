"""Addresses that gRPC servers listen on."""

import grpc

from weir_core.process.address import bind_failed, check_free, join_address, split_address
from weir_core.tls.identity import TlsIdentity


def bind(server: grpc.aio.Server, address: str, knob: str, tls: TlsIdentity | None = None) -> str:
    """Lets a server listen, and returns the bound `host:port`.

    Args:
        server: not yet started; it may listen on several addresses.
        address: `host:port`; port 0 picks one.
        knob: the setting to name when the address cannot be bound.
        tls: who it is there, and whom it trusts; None for plain text.

    Raises StartupError.
    """
    host, _ = split_address(address, knob)
    check_free(address, knob)
    try:
        port = (
            server.add_insecure_port(address)
            if tls is None
            else server.add_secure_port(address, tls.server_credentials())
        )
    except RuntimeError as error:
        raise bind_failed(address, knob, str(error)) from error
    return join_address(host, port)
