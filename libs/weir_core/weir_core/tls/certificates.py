"""A certificate, its key and the CA of the peers: read from files and checked."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from weir_core.errors.startup import StartupError

Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Certificates:
    """What one end of a TLS connection shows and trusts.

    Attributes:
        chain: own certificate and the intermediates after it, PEM.
        key: its private key, PEM.
        ca: certificates that sign those of peers, PEM; empty: peers are not asked for one.
        expires_s: end of the own certificate, Unix seconds.
    """

    chain: bytes
    key: bytes
    ca: bytes
    expires_s: float


class CertificateFiles:
    """The files of one group of settings.

    Args:
        certificate, key: paths of PEM files.
        ca: path likewise; empty for none.
        group: name of the settings group, such as `tls`, for errors.
        ca_field: name of the setting of `ca` in it.
    """

    def __init__(
        self, certificate: str, key: str, ca: str, *, group: str, ca_field: str = "ca"
    ) -> None:
        self.certificate = Path(certificate)
        self.key = Path(key)
        self.ca = Path(ca) if ca else None
        self.group = group
        self._ca_field = ca_field

    def present(self) -> bool:
        """Whether all of them are there."""
        return all(path.is_file() for path in self._paths())

    def stamp(self) -> Stamp:
        """Differs when a file was written or replaced. Raises OSError."""
        stats = [path.stat() for path in self._paths()]
        return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)

    def read(self) -> Certificates:
        """Reads and checks them.

        Raises:
            StartupError: a file is missing or not what it should be, the key is of another
                certificate, or the certificate is not valid now.
        """
        chain = self._bytes("certificate", self.certificate)
        key = self._bytes("key", self.key)
        ca = self._bytes(self._ca_field, self.ca) if self.ca else b""
        own = self._parsed("certificate", self.certificate, chain)
        self._check_time("certificate", self.certificate, own)
        if self.ca:
            self._check_time(self._ca_field, self.ca, self._parsed(self._ca_field, self.ca, ca))
        self._check_key(own, key)
        return Certificates(chain, key, ca, own.not_valid_after_utc.timestamp())

    def _paths(self) -> list[Path]:
        return [self.certificate, self.key, *([self.ca] if self.ca else [])]

    def _bytes(self, field: str, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise self._wrong(field, path, f"cannot be read: {error.strerror}") from None

    def _parsed(self, field: str, path: Path, pem: bytes) -> x509.Certificate:
        try:
            return x509.load_pem_x509_certificates(pem)[0]
        except ValueError:
            raise self._wrong(field, path, "holds no certificate in PEM") from None

    def _check_time(self, field: str, path: Path, certificate: x509.Certificate) -> None:
        now = datetime.now(UTC)
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if now > end:
            raise self._wrong(field, path, f"has expired at {end:%Y-%m-%dT%H:%M:%SZ}; renew it")
        if now < begin:
            raise self._wrong(
                field, path, f"is valid from {begin:%Y-%m-%dT%H:%M:%SZ}; is the clock right?"
            )

    def _check_key(self, own: x509.Certificate, pem: bytes) -> None:
        try:
            key = load_pem_private_key(pem, password=None)
        except TypeError:
            raise self._wrong("key", self.key, "is encrypted; give it without password") from None
        except ValueError:
            raise self._wrong("key", self.key, "holds no private key in PEM") from None
        of_key = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        public = own.public_key()
        if of_key != public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo):
            raise self._wrong(
                "key", self.key, f"is not the key of {self.group}.certificate {self.certificate}"
            )

    def _wrong(self, field: str, path: Path, why: str) -> StartupError:
        return StartupError(f"{self.group}.{field} {path} {why}")
