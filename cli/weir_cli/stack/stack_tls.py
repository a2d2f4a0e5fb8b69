"""TLS of a stack on this machine: its certificates, and how it is reached with them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weir_cli.commands.tls import DOMAIN, EDGE, OPERATOR, SERVICES, make_certificates
from weir_cli.errors import CommandError
from weir_core.config import TlsSettings
from weir_core.errors.startup import StartupError
from weir_core.tls.identity import TlsIdentity, service_identity
from weir_core.tls.trusted_ca import TrustedCa

CA_VARIABLE = "WEIR_TLS_CA"
CERTIFICATE_VARIABLE, KEY_VARIABLE = "WEIR_TLS_CERTIFICATE", "WEIR_TLS_KEY"
DOMAIN_VARIABLE = "WEIR_TLS_PEER_DOMAIN"


class StackTls:
    """The files that `weir tls init` made in a folder.

    Args:
        folder: they are made if it holds none.

    Raises:
        CommandError: it cannot be written, or some are missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        if not (self.folder / "ca.pem").exists():
            make_certificates(self.folder)
        names = (*SERVICES, EDGE, OPERATOR)
        wanted = [f"{name}.{end}" for name in names for end in ("pem", "key")]
        missing = [name for name in wanted if not (self.folder / name).exists()]
        if missing:
            raise CommandError(f"{folder} lacks {', '.join(missing)}; run `weir tls init {folder}`")

    @property
    def ca(self) -> Path:
        """What clients trust."""
        return self.folder / "ca.pem"

    def settings(self, service: str) -> dict[str, Any]:
        """What a service is told."""
        told: dict[str, Any] = {"tls": {**self._pair(service), **self._trust()}}
        if service == "gateway":
            told["edge_tls"] = self._pair(EDGE)
        return told

    def operator(self) -> TlsIdentity:
        """Who commands are for the services. Raises CommandError."""
        return _identity({**self._pair(OPERATOR), **self._trust()})

    def client(self) -> TrustedCa:
        """Whom clients of the gateway trust."""
        return TrustedCa(self.ca)

    def _pair(self, name: str) -> dict[str, str]:
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        return {"certificate": str(paths[0]), "key": str(paths[1])}

    def _trust(self) -> dict[str, str]:
        return {"ca": str(self.ca), "peer_domain": DOMAIN}


def tls_of(settings: Mapping[str, Any]) -> StackTls | None:
    """That of a stack, from the settings file of one of its services; None without."""
    told = settings.get("tls")
    return StackTls(Path(told["ca"]).parent) if told else None


def tls_of_environment(*, services: bool) -> TlsIdentity | TrustedCa | None:
    """How `--address` is reached: by TLS where WEIR_TLS_CA names a CA.

    Args:
        services: the peer is a service, called by WEIR_TLS_PEER_DOMAIN if that is set, and not
            the gateway's port for clients.

    Raises CommandError.
    """
    names = {"ca": CA_VARIABLE, "certificate": CERTIFICATE_VARIABLE, "key": KEY_VARIABLE}
    given = {field: os.environ.get(name, "") for field, name in names.items()}
    if not any(given.values()):
        return None
    if given["ca"] and not given["certificate"] and not given["key"]:
        try:
            return TrustedCa(Path(given["ca"]))
        except StartupError as error:
            raise CommandError(f"{CA_VARIABLE}: {error}") from None
    domain = os.environ.get(DOMAIN_VARIABLE, "") if services else ""
    return _identity({**given, "peer_domain": domain})


def _identity(told: Mapping[str, str]) -> TlsIdentity:
    try:
        identity = service_identity(TlsSettings(**told))
    except StartupError as error:
        raise CommandError(
            f"{error} (from {CA_VARIABLE}, {CERTIFICATE_VARIABLE} and {KEY_VARIABLE})"
        ) from None
    if identity is None:
        raise CommandError(f"set {CA_VARIABLE}, {CERTIFICATE_VARIABLE} and {KEY_VARIABLE}")
    return identity
