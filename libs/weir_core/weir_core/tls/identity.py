"""TLS of one end: credentials that follow their files."""

import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
from prometheus_client import CollectorRegistry, Gauge

from weir_core.config import TlsSettings
from weir_core.errors.startup import StartupError
from weir_core.telemetry.logs import get_logger
from weir_core.tls.certificates import CertificateFiles, Certificates

_log = get_logger(__name__)

_LOOK_S = 1.0


class TlsIdentity:
    """Who a process is, and whom it trusts; read again when a file changes.

    Files are looked at when a connection begins, at most once a second: connections that are
    open stay as they are. New files that are not good are logged and left alone.

    Args:
        files: where the certificates lie.
        peer_domain: peers must be called SERVICE.DOMAIN; empty: by the host they are reached at.

    Raises:
        StartupError: the files are not good.
    """

    def __init__(self, files: CertificateFiles, *, peer_domain: str = "") -> None:
        self.peer_domain = peer_domain
        self.version = 1
        self._files = files
        self._lock = threading.Lock()
        # Before they are read: what changes meanwhile is seen at the next look.
        self._stamp = files.stamp() if files.present() else ()
        self._certificates = files.read()
        self._look_at = time.monotonic() + _LOOK_S

    @property
    def asks_clients(self) -> bool:
        """Whether who connects must show a certificate."""
        return bool(self._certificates.ca)

    def current(self) -> Certificates:
        """The certificates of now; `version` counts how often they changed. Any thread's."""
        with self._lock:
            if time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + _LOOK_S
                self._look()
            return self._certificates

    def server_credentials(self) -> grpc.ServerCredentials:
        """Of a gRPC port; each new connection gets the certificates of its time."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(),
            self._configuration,
            require_client_authentication=self.asks_clients,
        )

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Of a client of this moment."""
        now = self.current()
        return grpc.ssl_channel_credentials(now.ca, now.key, now.chain)

    def http_context(self) -> ssl.SSLContext:
        """Of an HTTP port; each new connection gets the certificates of its time.

        Raises StartupError.
        """
        made = (self.version, self._context())

        def renew(connection: Any, _: str | None, __: ssl.SSLContext) -> None:
            nonlocal made
            self.current()
            if made[0] != self.version:
                try:
                    made = (self.version, self._context())
                except StartupError as error:
                    made = (self.version, made[1])
                    _log.warning("tls_files_refused", why=str(error))
            connection.context = made[1]

        made[1].sni_callback = renew
        return made[1]

    def tell_expiry(self, registry: CollectorRegistry) -> None:
        """Adds the end of the own certificate to the metrics."""
        certificate_expiry(registry, self._files.group, lambda: self.current().expires_s)

    def _look(self) -> None:
        try:
            stamp = self._files.stamp()
        except OSError as error:
            _log.warning("tls_files_refused", why=f"{error.filename}: {error.strerror}")
            return
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._certificates = self._files.read()
        except StartupError as error:
            _log.warning("tls_files_refused", why=str(error))
            return
        self.version += 1
        _log.info("tls_files_read", group=self._files.group, version=self.version)

    def _configuration(self) -> Any:
        now = self.current()
        return grpc.ssl_server_certificate_configuration([(now.key, now.chain)], now.ca or None)

    def _context(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(files.certificate, files.key, password="")
            if self._certificates.ca:
                context.load_verify_locations(cadata=self._certificates.ca.decode())
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:
            raise StartupError(f"{files.group}.certificate {files.certificate}: {error}") from None
        return context


def certificate_expiry(registry: CollectorRegistry, group: str, read: Callable[[], float]) -> None:
    """Adds the end of the certificate in the settings `group`."""
    Gauge(
        f"weir_{group}_certificate_expiry_seconds",
        f"End of {group}.certificate, Unix seconds",
        registry=registry,
    ).set_function(read)


def service_identity(
    settings: TlsSettings, registry: CollectorRegistry | None = None
) -> TlsIdentity | None:
    """Of the connections between services; None where they are plain.

    Args:
        settings: the files.
        registry: gets the end of the certificate as a metric.

    Raises StartupError when it is set by halves, or a file is not good.
    """
    given = {"certificate": settings.certificate, "key": settings.key, "ca": settings.ca}
    if not any(given.values()):
        if settings.peer_domain:
            raise StartupError("tls.peer_domain needs tls.certificate, tls.key and tls.ca")
        return None
    for name, path in given.items():
        if not path:
            raise StartupError(
                f"tls.{name} is empty; TLS between services needs certificate, key and ca"
            )
    files = CertificateFiles(settings.certificate, settings.key, settings.ca, group="tls")
    identity = TlsIdentity(files, peer_domain=settings.peer_domain)
    if registry is not None:
        identity.tell_expiry(registry)
    return identity
