"""TLS of a client that shows no certificate of its own."""

from pathlib import Path

import grpc

from weir_core.errors.startup import StartupError


class TrustedCa:
    """Trusts the servers whose certificates a CA has signed; for `open_channel`.

    Args:
        path: PEM file of the CA.

    Raises:
        StartupError: it cannot be read.
    """

    peer_domain = ""
    version = 1

    def __init__(self, path: Path) -> None:
        try:
            self._ca = path.read_bytes()
        except OSError as error:
            raise StartupError(f"{path} cannot be read: {error.strerror}") from None

    def current(self) -> None:
        """Does nothing: the file is read once."""

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Of a client."""
        return grpc.ssl_channel_credentials(self._ca)
