"""A small certificate authority, for one deployment or a developer's machine."""

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from weir_cli.errors import CommandError

CA_CERTIFICATE, CA_KEY = "ca.pem", "ca.key"
_CA_DAYS = 3_650
# Clocks of machines differ.
_SLACK = timedelta(minutes=5)


class CertificateAuthority:
    """Signs certificates with the key in a folder; made there if there is none.

    Args:
        folder: holds `ca.pem` and `ca.key`.

    Raises:
        CommandError: the folder cannot be written, or what is there is not a CA.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / CA_KEY).exists():
                self._make()
            key = load_pem_private_key((folder / CA_KEY).read_bytes(), password=None)
            self._certificate = x509.load_pem_x509_certificate(
                (folder / CA_CERTIFICATE).read_bytes()
            )
        except OSError as error:
            raise CommandError(f"{error.filename or folder}: {error.strerror}") from None
        except (ValueError, TypeError):
            raise CommandError(f"{folder}/{CA_CERTIFICATE} and {CA_KEY} are not a CA") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CommandError(f"{folder}/{CA_KEY} is not a key that `weir tls init` made")
        self._key = key

    @property
    def certificate(self) -> Path:
        """Its own certificate, which everybody trusts."""
        return self.folder / CA_CERTIFICATE

    def issue(
        self, name: str, hosts: Sequence[str], *, days: float = 90, begin: datetime | None = None
    ) -> tuple[Path, Path]:
        """Makes `NAME.pem` and `NAME.key`, in the place of what is there.

        Args:
            name: of the files, and the common name.
            hosts: DNS names and IP addresses that the certificate is for.
            days: how long it is valid.
            begin: from when; None: from now.

        Returns the paths of certificate and key. Raises CommandError.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        begin = begin or datetime.now(UTC) - _SLACK
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _builder(name, self._certificate.subject, key, begin, begin + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(_signed_by(self._key), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        try:
            _write(paths[1], _private(key), private=True)
            _write(paths[0], certificate.public_bytes(Encoding.PEM))
        except OSError as error:
            raise CommandError(f"{error.filename or paths[0]}: {error.strerror}") from None
        return paths

    def _make(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        begin = datetime.now(UTC) - _SLACK
        name = "Tokenweir CA"
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(name, subject, key, begin, begin + timedelta(days=_CA_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs=True), critical=True)
            .add_extension(_signed_by(key), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(self.folder / CA_CERTIFICATE, certificate.public_bytes(Encoding.PEM))
        _write(self.folder / CA_KEY, _private(key), private=True)


def _builder(
    name: str,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begin: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed_by(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise CommandError(f"{host!r} is neither a DNS name nor an IP address") from None


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, text: bytes, *, private: bool = False) -> None:
    """In one step: who reads meanwhile gets the old file or the new one."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    mode = 0o600 if private else 0o644
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(text)
    new.replace(path)
