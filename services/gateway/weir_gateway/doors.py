"""Where a gateway listens: for clients, and for the other services."""

import grpc
from prometheus_client import CollectorRegistry

from weir_core.errors.startup import StartupError
from weir_core.host_port import is_loopback
from weir_core.process.grpc_port import bind
from weir_core.telemetry.logs import get_logger
from weir_core.tls.certificates import CertificateFiles
from weir_core.tls.identity import TlsIdentity, service_identity
from weir_gateway.settings import GatewaySettings

_log = get_logger(__name__)


class Doors:
    """TLS of the addresses of a gateway.

    Args:
        settings: of the process.
        registry: gets the ends of the certificates.

    Attributes:
        edge: who the gateway is for clients; None: HTTP and gRPC are plain there.
        services: who it is for the other services, and whom of them it trusts; None likewise.

    Raises:
        StartupError: the settings are half of what is needed, or a file is not good.
    """

    def __init__(self, settings: GatewaySettings, registry: CollectorRegistry) -> None:
        self._settings = settings
        self.edge = _edge_identity(settings)
        self.services = service_identity(settings.tls, registry)
        if self.edge is not None:
            self.edge.tell_expiry(registry)
        encrypted = self.edge is not None or self.services is not None
        if encrypted and settings.role != "edge" and not settings.internal_address:
            raise StartupError(
                "internal_address is empty; with tls or edge_tls the other services get the "
                "directory at an address that is not the clients', such as 127.0.0.1:8005"
            )

    def bind(self, server: grpc.aio.Server) -> tuple[str, str]:
        """Lets the gRPC server listen. Raises StartupError.

        Returns the bound `host:port` for clients, and for services: empty without one.
        """
        settings = self._settings
        public = bind(server, settings.grpc_address, "grpc_address", self.edge)
        administered = settings.admin_secret is not None and settings.role != "edge"
        if administered and self.edge is None and not is_loopback(public):
            _log.warning(
                "admin_secret_in_plain_text",
                address=public,
                mend="set edge_tls, or let nothing but a proxy with TLS reach the address",
            )
        internal = ""
        if settings.internal_address:
            internal = bind(server, settings.internal_address, "internal_address", self.services)
        return public, internal


def _edge_identity(settings: GatewaySettings) -> TlsIdentity | None:
    given = settings.edge_tls
    if bool(given.certificate) != bool(given.key) or (given.client_ca and not given.key):
        missing = "key" if given.certificate else "certificate"
        raise StartupError(
            f"edge_tls.{missing} is empty; TLS for clients needs certificate and key"
        )
    if not given.certificate:
        return None
    files = CertificateFiles(
        given.certificate, given.key, given.client_ca, group="edge_tls", ca_field="client_ca"
    )
    return TlsIdentity(files)
